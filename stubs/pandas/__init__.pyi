from collections.abc import Mapping, Sequence
from typing import Any

class DataFrame:
    def __init__(self, data: Sequence[Mapping[str, Any]]) -> None: ...
