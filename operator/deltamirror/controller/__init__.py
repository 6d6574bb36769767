"""The operator: kopf feeds a queue of due times, a pure function decides, threads do the work.

watch ─► objects ─► DueQueue ─► decide() ─► sync in a thread ─► status ─► jobs
"""
