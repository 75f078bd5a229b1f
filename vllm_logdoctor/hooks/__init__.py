"""Write a report at the end of a PBS or Slurm job without any risk for the job.

The script texts are in `templates/`, `scripts` fills them in. `joblog` finds the log of a job, `engine`
runs the analysis in a child with limits and always ends well, `report_job` is what runs in that child.
"""
