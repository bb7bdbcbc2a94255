"""The strategies of translation, each a `Translator` that passes `tests/unit/domain/test_translators.py`."""
