"""Events to state: what the cursor of each subscription holds once its events have happened.

`events` is the schema of events, and `event_columns` their form as arrays. `traces`, `parquet` and `files`
read them. `fold` and `columns` make partials and cursors of them, `resets` are the events whose order
matters. `states` is the replay of files into one state for each subscription, `local` that of files or
tables into one table, and `checking` says what is wrong with files. `agreement` compares states with the
broker's own. `history` judges what consumers saw. Nothing here needs Spark.
"""
