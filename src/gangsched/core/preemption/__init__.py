"""Pods of lower priority are evicted if a pending pod or gang fits then.

- ``reach``: whom a gang may preempt; ``eviction_units``: what is evicted together;
- ``disruption_budgets``: which evictions violate one;
- ``preemptor``: where a gang would go; ``victim_search`` and ``unit_search``: which units are
  evicted so that it fits; ``taken_units``: those that are off the nodes; ``victim_plan``: the cost;
- ``nominations``: the nodes that are kept for it; ``make_room``: from a failed attempt to these.
"""
