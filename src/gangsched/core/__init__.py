"""The core: events in, decisions, effects out.

It is being built beside ``framework``, behind the same four calls, and replaces it when it does all
that ``framework`` does. Start reading here:

- ``gang_tree``: what starts together; ``node_table`` and ``domains``: where;
- ``pod_class``: the one memo; ``records``: what is remembered; ``queue``: what is tried next;
- ``intake`` and ``settle``: the walk of an event; ``cycle``: the walk of a decision;
- ``trial``: the nodes without some pods; on it, ``preemption`` and ``reservation``;
- ``restarts`` and ``accounts``: what keeps a complete gang from the queue;
- ``questions``: why, the lists and what if; ``snapshot``: what outlives the process;
- ``scheduler``: the four calls.
"""
