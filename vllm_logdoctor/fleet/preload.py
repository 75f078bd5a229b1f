"""What every process of a pool needs: imported once by the server that forks them."""

import vllm_logdoctor.diagnose
import vllm_logdoctor.fleet.batches
import vllm_logdoctor.plan
import vllm_logdoctor.rules.failure
import vllm_logdoctor.rules.performance  # noqa: F401
