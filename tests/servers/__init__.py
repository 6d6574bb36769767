"""Real servers for the tests: an S3 store, a Kubernetes API server and Spark, each started in seconds.

The programs come from `make tools`; nothing here downloads or builds.
"""
