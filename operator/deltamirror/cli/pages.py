"""What `list` and `probe` show to people. Names and words of a provider are shown, not interpreted."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from deltamirror.mirror.probe import Ability, Report
from deltamirror.sharing.catalog import Table as SharedTable

_NAMES = {
    "snapshot": "newest version",
    "endMark": "end mark",
    "stableFileIds": "stable file ids",
    "history": "history",
    "ranges": "ranges",
    "changes": "change data feed",
    "pages": "pages",
    "refreshTokens": "refresh tokens",
    "directory": "directory access",
}


def catalog_tree(shares: dict[str, list[SharedTable]]) -> RenderableType:
    if not shares:
        return Text("nothing is shared with this recipient")
    root = Tree("shares")
    for share, tables in shares.items():
        branch = root.add(_text(share, "bold"))
        schemas: dict[str, Tree] = {}
        for table in tables:
            if table.schema not in schemas:
                schemas[table.schema] = branch.add(_text(table.schema))
            label = _text(table.name, "cyan")
            if table.type and table.type.upper() != "TABLE":
                label.append_text(_text(f" ({table.type.lower()})", "dim"))
            schemas[table.schema].add(label)
        if not tables:
            branch.add(Text("empty", "dim"))
    return root


def probe_table(report: Report) -> RenderableType:
    facts = Table(box=None, show_header=False, pad_edge=False)
    facts.add_column(style="bold")
    facts.add_column()
    facts.add_row("table", _text(f"{report.table}, version {report.version}"))
    facts.add_row("format", report.responseFormat)
    facts.add_row("reader features", _text(", ".join(report.readerFeatures) or "none"))
    facts.add_row(
        "signed URLs live",
        f"{report.urlLifetimeSeconds} s" if report.urlLifetimeSeconds else "for a time that is not said",
    )
    if report.dropped:
        facts.add_row("not mirrored", _text(", ".join(report.dropped)))
    abilities = _abilities("the provider can", {_NAMES[name]: ability for name, ability in report.abilities.items()})
    return Group(facts, "", abilities, "", _abilities("mirror mode", report.modes))


def _abilities(title: str, abilities: dict[str, Ability]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(title)
    table.add_column("")
    table.add_column("")
    for name, ability in abilities.items():
        table.add_row(name, "[green]yes[/]" if ability.able else "[yellow]no[/]", _text(ability.detail))
    return table


def _text(content: str, style: str = "") -> Text:
    return Text("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in content), style)
