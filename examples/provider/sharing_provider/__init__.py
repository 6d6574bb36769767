"""A small Delta Sharing server over Delta tables in a folder or a bucket.

    config        provider.yaml
    catalog       shares, schemas, tables, and their listings
    requests      capabilities, query bodies, query strings
    tokens        what a client hands back to go on: pages, refreshes

    tables        the log of one table: versions, times, what may be shared
    replays       snapshots that need not be replayed again
    history       a table as Delta Standalone sees it, and what it refuses
    commits       the commits of a log, one by one
    predicate     files that a hint lets us leave out

    answers       snapshots: which actions an answer has
    ranges        ranges and changes
    lines         an action as a line of NDJSON
    urls          signed URLs that expire
    credentials   directory access

    server        the endpoints
    serving       starting it, alone or inside a test

It exists to be mirrored from: by the demo, by the tests and by a cluster. It answers what the open-source
reference server answers, errors included, and is held to recordings of it; two more flavours behave as other
servers do.
"""

from sharing_provider.answers import Answer
from sharing_provider.config import Config, ConfigError, Flavour, load, parse
from sharing_provider.server import Server
from sharing_provider.serving import Provider, serve

__all__ = ["Answer", "Config", "ConfigError", "Flavour", "Provider", "Server", "load", "parse", "serve"]
