-- Asks to be told of new tasks: the channel is named like the schema.
LISTEN "leasehold"
