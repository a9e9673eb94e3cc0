"""From SQL text to a physical plan: the cheapest way to answer a statement; never touches torch or a device.

`covey_planner.plan` is the way in.
"""
