"""kafka-python is loaded through the door that filters its warnings."""

import tanist.wire.messages  # noqa: F401
