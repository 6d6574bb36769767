"""The rules that every status must keep, whatever happened (kstatus, and what flux checks in its tests)."""

from __future__ import annotations

from typing import Any


def broken_rules(resource: dict[str, Any]) -> list[str]:
    """Sentences about what is wrong with the status of an object; none if it is in order."""
    status = resource.get("status") or {}
    generation = resource["metadata"].get("generation", 0)
    conditions = {c["type"]: c for c in status.get("conditions", [])}
    ready = conditions.get("Ready", {}).get("status")
    broken: list[str] = []
    if not conditions:
        return broken
    if ready is None:
        broken.append("Ready is missing")
    for kind in ("Reconciling", "Stalled"):
        if kind in conditions and conditions[kind]["status"] != "True":
            broken.append(f"{kind} is there and not True")
        if kind in conditions and ready == "True":
            broken.append(f"Ready and {kind} are both True")
    if "Reconciling" in conditions and "Stalled" in conditions:
        broken.append("Reconciling and Stalled are both there")
    if status.get("observedGeneration", -1) > generation:
        broken.append("observedGeneration is ahead of the generation")
    if ready == "True" and conditions["Ready"]["observedGeneration"] > status.get("observedGeneration", -1):
        broken.append("Ready is about a generation that is not observed yet")
    for condition in conditions.values():
        if not condition["reason"] or not condition["message"]:
            broken.append(f"{condition['type']} has no reason or no message")
        if len(condition["message"]) > 2000:
            broken.append(f"the message of {condition['type']} is endless")
    if len(status.get("history", [])) > 5:
        broken.append("the history has more than 5 entries")
    return broken
