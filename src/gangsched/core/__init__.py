"""The core: events in, decisions, effects out.

Start reading here; each package imports only those that are named before it:

- ``primitives.gang_tree``: what starts together; ``nodes``: where;
- ``evaluation``: the one memo, which classes of pods share;
- ``records``: pods and gangs, and the only mover; ``trial``: the nodes without some pods;
- ``placement``: nodes for a gang; ``queue``: what is tried next; ``state``: all that is remembered;
- ``moves``: nodes are taken and given back; ``admission``: what keeps a complete gang from the
  queue; ``attempt``: which members are tried, where, and how that ends;
- ``preemption`` and ``reservation``: what is done for a gang that does not fit;
- ``intake`` and ``settle``: the walk of an event;
- ``decision`` and ``cycle``: the walk of a decision, about a gang or a member;
- ``reading``: the lists, and why; ``questions``: what if; ``snapshot``: what outlives the process;
- ``scheduler``: the four calls.
"""
