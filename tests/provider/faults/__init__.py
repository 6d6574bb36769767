"""What servers, stores and networks do wrong, each thing as a class: its name says what, its docstring why.

    fault         when a fault strikes, and where it can take hold
    refusals      another status than 200, or another answer than the one asked for
    connections   the right answer, brought badly
    answers       lines that are not what they seem
    files         URLs that die, files that are not those of the listing

`tests.misbehaviour` puts them around a provider.
"""
