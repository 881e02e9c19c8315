"""Events to state: what the cursor of each subscription holds once its events have happened.

`events` is the schema of events and their readers, `partial` a state that merges, `columns` the fold of Arrow
columns into partials, `states` the replay of files into one state for each subscription, and `agreement`
compares that state with the broker's own. Nothing here needs Spark.
"""
