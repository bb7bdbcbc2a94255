"""kafka-python, the second opinion here, is loaded through the door that filters its warnings."""

import tanist.kafka.wire.messages  # noqa: F401
