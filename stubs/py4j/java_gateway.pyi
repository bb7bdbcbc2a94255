from collections.abc import Sequence
from typing import Any, Literal

class GatewayParameters:
    def __init__(self, *, port: int, auth_token: str, auto_convert: bool = ...) -> None: ...

class JavaGateway:
    jvm: Any
    def __init__(self, *, gateway_parameters: GatewayParameters) -> None: ...
    def shutdown(self) -> None: ...

def launch_gateway(
    *,
    classpath: str,
    javaopts: Sequence[str],
    java_path: str,
    die_on_exit: bool,
    enable_auth: Literal[True],
) -> tuple[int, str]: ...
