"""A small Delta Sharing server over Delta tables in a folder or a bucket.

    config      provider.yaml
    catalog     shares, schemas, tables, and their listings
    requests    capabilities, query bodies
    tables      the log of one table: versions, times, what may be shared
    predicate   files that a hint lets us leave out
    urls        signed URLs that expire
    lines       a snapshot as NDJSON
    server      the endpoints
    serving     starting it, alone or inside a test

It exists to be mirrored from: by the demo, by the tests and by a cluster. It answers what the open-source
reference server answers, errors included, and is held to recordings of it.
"""

from sharing_provider.config import Config, ConfigError, load, parse
from sharing_provider.server import Answer, Server
from sharing_provider.serving import Provider, serve

__all__ = ["Answer", "Config", "ConfigError", "Provider", "Server", "load", "parse", "serve"]
