"""deltamirror: your own Delta table of a table that somebody shares with you.

The rooms, from the ground up:

    api        the SharedTable resource as typed models          ┐
    sharing    the Delta Sharing protocol                        │ independent
    delta      the Delta transaction log                         │ of each other
    store      object stores behind one small interface          ┘
    mirror     the engine: plan, copy, verify, commit            stands on those four
    jobs       windows of new versions, and the Spark jobs that read them
    controller the operator
    cli        the `deltamirror` command
"""

__version__ = "0.1.0"
