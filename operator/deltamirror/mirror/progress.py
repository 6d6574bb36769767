"""How a running sync tells what it is doing. The command draws bars from it, the operator writes status."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltamirror.mirror.plan import Plan


class Progress:
    """Says nothing; subclasses override what they care about. Calls come from several threads."""

    def planned(self, plan: Plan) -> None:
        """The source was listed and compared; copying starts."""

    def copied(self, size: int) -> None:
        """Bytes of a file arrived in the mirror's store."""

    def file_done(self) -> None:
        """A data or deletion vector file is complete and verified."""
