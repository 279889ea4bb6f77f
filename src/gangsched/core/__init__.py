"""The core: events in, decisions, effects out.

Start reading here:

- ``primitives.gang_tree``: what starts together; ``node_table`` and ``domains``: where;
- ``memo``: the one memo, which classes of pods share (``pod_class``);
- ``records``: what is remembered; ``queue``: what is tried next;
- ``intake`` and ``settle``: the walk of an event; ``pending_members``: what a gang asks for;
- ``cycle``: the walk of a decision, about a gang (``gang_cycle``) or a member (``member_cycle``);
- ``trial``: the nodes without some pods; on it, ``preemption`` and ``reservation``;
- ``restarts`` and ``accounts``: what keeps a complete gang from the queue;
- ``questions``: why, the lists and what if; ``snapshot``: what outlives the process;
- ``scheduler``: the four calls.
"""
