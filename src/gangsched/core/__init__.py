"""The core: events in, decisions, effects out.

Read in this order: ``gang_tree`` (what starts together), ``node_table`` and ``domains`` (where),
``pod_class`` (the one memo), ``records`` (what is remembered), ``queue`` (what is tried next),
``intake`` and ``settle`` (the walk of an event), ``cycle`` (the walk of a decision), ``scheduler``
(the four calls).
"""
