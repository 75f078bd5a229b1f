"""Rules on how a model is spread over cards and nodes: tensor parallel ranks, and stages that wait for each other."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from vllm_logdoctor.events import Event
from vllm_logdoctor.rules.capacity.laws import RANKS_OVERHEAD_GIB, uses_latent_attention
from vllm_logdoctor.rules.capacity.memory import Memory, memory_of
from vllm_logdoctor.rules.context import (
    RuleContext,
    action,
    flag,
    message_lines,
    plural,
    sample_lines,
    setting_lines,
    whole,
)
from vllm_logdoctor.rules.limits import SERVER_LIMITS
from vllm_logdoctor.rules.load import rate_each
from vllm_logdoctor.rules.model import Change, Confidence, Effect
from vllm_logdoctor.rules.performance.published import NODES_JOINED, REPLICAS_FOR_TP4, TP_HALVED_LOADED
from vllm_logdoctor.rules.placement import CARDS_OF_A_MACHINE, joined_by_network, ranks_of, runs_on_cpu
from vllm_logdoctor.rules.rule import Advice, Rule

# A model counts as small for its cards when its weights take at most this share of what one card may use.
SMALL_SHARE = 0.6
# Cache of a replica over what the load used of it.
CACHE_RESERVE = 1.5
# A model length is cut only where it stays this many times above what a request held on average, and usable.
LENGTH_RESERVE = 8
LEAST_LENGTH = 8192
NO_PEER_ACCESS = "your platform lacks GPU P2P capability or P2P test failed"
CRAWLING = "Slow steps: ranks spread over more than one machine"
# Requests per replica from which the measured range holds without doubt.
BUSY_REPLICA = 4
# Seconds of load with fewer requests than stages.
LONG_ENOUGH = 60.0


class OneCard(Struct, frozen=True):
    """What one card would hold: weights and cache in GiB, tokens."""

    weights: float
    cache: float
    tokens: float


def small_model_split_over_cards(case: RuleContext) -> Advice | None:
    """Tensor parallel for a model that one card holds, over slow links.

    Needs weights, cache and ranks in the log.
    """
    run = case.run
    ranks, memory = whole(run.setting("tensor_parallel_size")) or 1, memory_of(run)
    slow = slow_links(case)
    if ranks < 2 or memory is None or slow is None or (whole(run.setting("pipeline_parallel_size")) or 1) > 1:
        return None
    card = on_one_card(memory, ranks, uses_latent_attention(run))
    if card is None or not _is_enough(case, memory, card, ranks):
        return None
    alone = _single_streams(case, ranks)
    text = _split_text(case, memory, card, ranks, slow)
    return Advice(
        text,
        (
            *message_lines(case, "custom-allreduce-disabled"),
            *setting_lines(case, "tensor_parallel_size", "model_weights_gib", "available_kv_cache_gib"),
        ),
        confidence=_split_confidence(case, ranks),
        severity=None if case.load.running >= ranks else "medium",
        changes=() if alone else _replica_changes(case, memory, card, ranks),
        effect=None if alone else _split_effect(case, ranks),
        alternatives=(f"one card and {ranks - 1} free ones, where the load does not need {ranks} replicas",),
        avoid=(
            "More ranks to make a small model faster: without NVLink two ranks gave 0.84 to 1.71 x for a"
            " single stream, four were slower than two under load."
        ),
        verify=(
            f"`tensor_parallel_size=1` in the engine's configuration, {ranks} engines in the statistics"
            " lines, the sum of their generation throughput above the old one."
        ),
    )


def _split_text(case: RuleContext, memory: Memory, card: OneCard, ranks: int, slow: str) -> str:
    load = case.load
    text = (
        f"{card.weights:.2f} GiB of weights are split over {ranks} cards, {slow}. One card holds them with"
        f" {card.cache:.1f} GiB left for about {card.tokens:,.0f} tokens of cache ({memory.tokens:,.0f} with"
        f" {ranks} cards together). With tensor parallelism every layer of every step waits for two exchanges"
        f" between all cards; {ranks} replicas exchange nothing."
    )
    if load.busy_seconds and load.running < ranks:
        text += (
            f" With {load.running:.0f} requests at once some replicas would stay empty: worth it only for"
            " more requests, or to free cards."
        )
    if _single_streams(case, ranks):
        text += (
            " For a single stream ranks help even so (1.26 to 1.52 x measured for four): with latency as the objective nothing"
            " is proposed."
        )
    if not fits(card, memory):
        text += (
            f" One card can't hold a request of the full {memory.length:,} tokens: the start would fail"
            " without a smaller --max-model-len. Requests seen held far less than"
            f" {shorter_length(case, memory, card):,}."
        )
    return text


def slow_links(case: RuleContext) -> str | None:
    """Return in words why the cards' links are slow, or None where the log does not say so."""
    event = case.event("custom-allreduce-disabled")
    reason = _reason(event) if event else ""
    if "PCIe" in reason:
        return "linked by PCIe only (vLLM says so)"
    if "P2P" in reason:
        return "that can't reach each other's memory directly (vLLM says so)"
    return "on different nodes" if case.event("tensor-parallel-across-nodes") else None


def on_one_card(memory: Memory, ranks: int, latent: bool) -> OneCard | None:
    """Return what one card would hold of a model that is split over some, or None where the log does not
    tell.
    """
    if memory.weights is None or memory.available is None:
        return None
    weights = memory.weights * ranks
    cache = memory.available + memory.weights - weights + RANKS_OVERHEAD_GIB
    share = 1.0 if latent else 1.0 / ranks
    return OneCard(weights, cache, memory.tokens * cache / memory.available * share)


def _reason(event: Event) -> str:
    """Return why vLLM's own all-reduce is off; a line broken by a terminal ends in the middle of it."""
    reason = event.text("reason")
    return NO_PEER_ACCESS if NO_PEER_ACCESS.startswith(reason.strip()) else reason


def custom_allreduce_disabled(case: RuleContext) -> Advice | None:
    """vLLM's own all-reduce is off by itself. Needs the engine's line that says so."""
    event = case.event("custom-allreduce-disabled")
    if event is None:
        return None
    reason = _reason(event)
    ranks = whole(case.run.setting("tensor_parallel_size"))
    expected = "PCIe" in reason or "across nodes" in reason
    text = f"vLLM's own all-reduce is off: {reason}. NCCL takes over, a little slower for small batches."
    text += (
        " That is expected here: there is nothing to switch on."
        if expected
        else (
            " If the cards have NVLink or share a PCIe switch, peer access should work: check IOMMU, ACS and the"
            " container's access to the other cards."
        )
    )
    return Advice(
        text,
        (*message_lines(case, "custom-allreduce-disabled"), *setting_lines(case, "tensor_parallel_size")),
        confidence="high" if expected else "medium",
        severity="info" if expected else None,
        changes=(
            () if expected else (action("check peer-to-peer access: nvidia-smi topo -p2p r", before=ranks),)
        ),
        alternatives=("replicas instead of tensor parallelism, if one card holds the model",),
        avoid=(
            ""
            if expected
            else "NCCL_P2P_DISABLE=1 as a permanent setting: it hides the fault and costs bandwidth."
        ),
        verify="no such line at the start.",
    )


def inter_node_network_bound(case: RuleContext) -> Advice | None:
    """Ranks sit on different nodes.

    Needs Ray's placement warning, or more ranks than a machine has cards and statistics lines of a single stream
    that crawls.
    """
    event = case.event("tensor-parallel-across-nodes")
    if event is None:
        return _more_ranks_than_cards(case)
    ranks = whole(event.number("size")) or whole(case.run.setting("tensor_parallel_size"))
    local = whole(event.number("local"))
    sockets = case.event("nccl-over-sockets") is not None
    text = (
        f"{ranks or 'The'} tensor parallel ranks are not on one node"
        + (f" (a node reserved {plural(local, 'GPU')})" if local else "")
        + ": every layer of every step waits for the network twice."
        + (" NCCL goes over TCP sockets, not RDMA." if sockets else "")
        + f" Ranks on one node were measured {NODES_JOINED.low:g} to {NODES_JOINED.high:g} times as fast (one pair)."
    )
    changes: tuple[Change, ...] = ()
    if ranks and local and local < ranks and ranks % local == 0:
        changes = (
            *flag(
                case,
                "--tensor-parallel-size",
                ranks,
                local,
                "needs-test",
                "no more ranks than one node has cards",
            ),
            *flag(
                case,
                "--pipeline-parallel-size",
                case.run.setting("pipeline_parallel_size") or 1,
                ranks // local,
                "needs-test",
                "between nodes only activations travel",
            ),
        )
    return Advice(
        text,
        (
            *message_lines(case, "tensor-parallel-across-nodes", "nccl-over-sockets"),
            *sample_lines(case, case.load.busy[:1]),
        ),
        confidence="high",
        changes=changes
        or (action("keep tensor parallel ranks on one node; pipeline parallel or replicas between nodes"),),
        effect=None if changes else NODES_JOINED.effect("generation_throughput"),
        alternatives=("RDMA between the nodes: NCCL_DEBUG=INFO must show NET/IB, not NET/Socket",),
        verify="no placement warning at the start; with NCCL_DEBUG=INFO no `NET/Socket`.",
    )


def _more_ranks_than_cards(case: RuleContext) -> Advice | None:
    held = case.spans("interconnect-limited")
    if case.bottleneck.name != "interconnect-limited" or not held:
        return None
    ranks, sockets = ranks_of(case.run), joined_by_network(case.run)
    rate = max(rate_each(span.sample) for span in held)
    text = f"{ranks} ranks share each request, more than most machines have cards, and a request got at most {rate:.2g} tokens/s."
    text += (
        " NCCL says that it goes over TCP sockets, and tensor parallel ranks exchange twice in every layer of every step."
        if sockets
        else " Cards of such machines read their weights many times as fast: the network between the nodes is the first"
        " suspect. The log does not show it; NCCL_DEBUG=INFO would (NET/IB or NET/Socket)."
    )
    look = "set NCCL_DEBUG=INFO and look for NET/Socket; give NCCL the fast interface or RDMA where it is"
    rejoin = (
        "tensor parallel ranks of one node, pipeline parallel or replicas between nodes; or RDMA between them"
        " (NET/IB in NCCL's lines)"
    )
    found = Advice(
        text,
        (
            *sample_lines(case, held),
            *setting_lines(case, "tensor_parallel_size", "pipeline_parallel_size"),
            *message_lines(case, "nccl-over-sockets"),
        ),
        confidence="medium" if sockets else "low",
        changes=(action(rejoin if sockets else look),),
        alternatives=("quantized weights or a smaller model on the cards of one machine",),
        verify="more tokens/s for a single request; with NCCL_DEBUG=INFO no `NET/Socket`.",
    )
    return found if sockets else replace(found, title=CRAWLING)


def _is_enough(case: RuleContext, memory: Memory, card: OneCard, ranks: int) -> bool:
    if card.cache <= 0 or card.weights > SMALL_SHARE * (card.weights + card.cache):
        return False
    used = memory.tokens * case.load.peak_kv / 100 / ranks * CACHE_RESERVE
    return card.tokens >= used and (fits(card, memory) or shorter_length(case, memory, card) is not None)


def fits(card: OneCard, memory: Memory) -> bool:
    """Return whether the cache of one card holds a request of full length: vLLM refuses to start otherwise."""
    return card.tokens >= (memory.length or 0)


def shorter_length(case: RuleContext, memory: Memory, card: OneCard) -> int | None:
    """Return a model length that one card can hold and that is far above what requests held, or None."""
    running = [(s.sample.kv_usage or 0.0, s.sample.running) for s in case.load.busy if s.sample.running]
    if not running:
        return None
    held = max(usage / 100 * memory.tokens / number for usage, number in running)
    length = 1
    while 2 * length <= card.tokens:
        length *= 2
    return length if length >= max(LENGTH_RESERVE * held, LEAST_LENGTH) else None


def _single_streams(case: RuleContext, ranks: int) -> bool:
    """Return whether latency is asked for, and fewer requests run at once than there would be replicas."""
    return case.objective == "latency" and case.load.running < ranks


def _replica_changes(case: RuleContext, memory: Memory, card: OneCard, ranks: int) -> tuple[Change, ...]:
    note = "a replica on each card; or that many servers behind a balancer"
    before = case.run.setting("data_parallel_size") or 1
    fewer = flag(case, "--tensor-parallel-size", ranks, 1, "needs-test")
    if case.objective == "cost" and case.bottleneck.name not in SERVER_LIMITS:
        freed = action(f"ask for one card in the job and return {ranks - 1}: this load fits one")
        return (*fewer, *_shorter(case, memory, card), freed)
    parallel = flag(case, "--data-parallel-size", before, ranks, "needs-test", note)
    servers = parallel or (action(f"{ranks} servers, one on each card, behind a balancer"),)
    return (*fewer, *servers, *_shorter(case, memory, card))


def _shorter(case: RuleContext, memory: Memory, card: OneCard) -> tuple[Change, ...]:
    length = None if fits(card, memory) else shorter_length(case, memory, card)
    refused = "longer requests are refused; without it the start fails on one card"
    return flag(case, "--max-model-len", memory.length, length, "needs-test", refused) if length else ()


def _split_confidence(case: RuleContext, ranks: int) -> Confidence:
    if not case.load.busy_seconds:
        return "low"
    return "high" if case.load.running >= BUSY_REPLICA * ranks else "medium"


def _split_effect(case: RuleContext, ranks: int) -> Effect | None:
    if case.load.busy_seconds and case.load.running < ranks:
        return None
    if ranks == 4:
        return REPLICAS_FOR_TP4.effect(
            "generation_throughput", "of all replicas together, with requests for all of them"
        )
    if ranks == 2:
        low, high = 2 * TP_HALVED_LOADED.low, 2 * TP_HALVED_LOADED.high
        basis = (
            f"two replicas times the measured {TP_HALVED_LOADED.low:g} to {TP_HALVED_LOADED.high:g} x of one"
            f" ({TP_HALVED_LOADED.pairs} pairs, {TP_HALVED_LOADED.conditions})"
        )
        return Effect("generation_throughput", round(low, 2), round(high, 2), "published", basis)
    return None


def pipeline_stages_idle(case: RuleContext) -> Advice | None:
    """Fewer requests run than there are pipeline stages.

    Needs the number of stages, and statistics lines of a minute or more.
    """
    stages, load = whole(case.run.setting("pipeline_parallel_size")) or 1, case.load
    if (
        stages < 2
        or runs_on_cpu(case.run)
        or load.busy_seconds < LONG_ENOUGH
        or not 1 <= load.running < stages
    ):
        return None
    running = round(load.running)
    text = (
        f"{plural(running, 'request')} running in the median, and the layers are split over"
        f" {stages} stages: a token passes them in turn, so that at most {running} of {stages} work at any moment and"
        " the others wait. Pipeline parallelism gives memory for a large model; it gives speed only with more requests than"
        " stages."
    )
    return Advice(
        text,
        (*setting_lines(case, "pipeline_parallel_size"), *sample_lines(case, load.busy)),
        confidence="medium",
        changes=_ranks_instead(case, stages),
        alternatives=(f"{stages} or more requests at once, where the load has them",),
        avoid="Settings of capacity (--max-num-seqs, --gpu-memory-utilization): nothing waits.",
        verify="more generated tokens/s for the same number of requests.",
    )


def _ranks_instead(case: RuleContext, stages: int) -> tuple[Change, ...]:
    ranks = whole(case.run.setting("tensor_parallel_size")) or 1
    joined = ranks * stages
    if slow_links(case) or ranks_of(case.run) > CARDS_OF_A_MACHINE:
        # Ranks that exchange in every layer are worse on such links than stages that exchange once.
        return (action("fewer cards with quantized weights, where the model then fits them"),)
    note = "where the cards are linked by NVLink; the model's heads must divide by the ranks"
    return (
        *flag(case, "--tensor-parallel-size", ranks, joined, "needs-test", note),
        *flag(case, "--pipeline-parallel-size", stages, 1, "needs-test"),
    )


RULES = (
    Rule(
        "inter-node-network-bound",
        inter_node_network_bound,
        objectives=("latency",),
        removes="interconnect-limited",
    ),
    Rule(
        "small-model-split-over-cards",
        small_model_split_over_cards,
        objectives=("throughput", "memory", "cost"),
    ),
    Rule("custom-allreduce-disabled", custom_allreduce_disabled, needs=("custom-allreduce-disabled",)),
    Rule("pipeline-stages-idle", pipeline_stages_idle),
)
