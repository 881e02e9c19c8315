"""Events to state: what the cursor of each subscription holds once its events have happened.

`events` is the schema of events, and `event_columns` their form as arrays. `traces`, `parquet` and `files`
read them. `fold` and `columns` make partials and cursors of them, `resets` are the events whose order
matters. `states` is the replay of files into one state for each subscription, and `agreement` compares that
state with the broker's own. `history` judges what consumers saw. Nothing here needs Spark.
"""
