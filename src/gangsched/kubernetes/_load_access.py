"""Read a kubeconfig, or the ServiceAccount of this pod, in a process of its own.

Run as a program, with the arguments as JSON on standard input. Prints ``Access`` as JSON. Why a
process: see ``_configuration``. It imports nothing of this package, so that it starts at once.

Rules:
  R1  kubernetes_asyncio's loader reads the configuration. What is added here is only what it
      leaves open: certificates as text, and the files of which a change means new credentials;
  R2  no file with a key is left behind: the loader's temporary files are in one directory, which
      is removed before this process ends;
  R3  the models of the API are not imported: they are most of the package, and 0.2 s of processor
      time. If the loader turns out to need them, they are.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["import_loader", "main"]

_USER_FILES = ("tokenFile", "client-certificate", "client-key")
_SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def import_loader() -> tuple[Any, Any]:
    """Return the loader's module of ServiceAccounts, and the class ``Configuration``.

    The package imports all models and all clients of the API in its ``__init__``. Of these, the
    loader needs ``Configuration``; ``ApiClient`` is in its annotations only. So both packages are
    there as empty modules while the loader is imported.
    """
    try:
        if _package("kubernetes_asyncio"):
            client: Any = _package("kubernetes_asyncio.client")
            found = import_module("kubernetes_asyncio.client.configuration")
            client.Configuration = found.Configuration
            client.ApiClient = object
            return import_module("kubernetes_asyncio.config"), found.Configuration
    except (ImportError, AttributeError):
        # another version, whose loader needs more; a package that is missing fails again below
        pass
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "kubernetes_asyncio" and isinstance(module, ModuleType):
            del sys.modules[name]
    client = import_module("kubernetes_asyncio.client")
    return import_module("kubernetes_asyncio.config"), client.Configuration


def _package(name: str) -> ModuleType | None:
    """Let a package be there, empty, without running its ``__init__``; None if there is none."""
    spec = find_spec(name)
    if spec is None or spec.submodule_search_locations is None:
        return None
    module = ModuleType(name)
    module.__path__ = list(spec.submodule_search_locations)
    module.__spec__ = spec
    sys.modules[name] = module
    return module


async def _read(asked: dict[str, Any]) -> dict[str, Any]:
    config, made = import_loader()
    configuration: Any = made()
    with tempfile.TemporaryDirectory(prefix="gangsched-") as directory:
        if asked["kubeconfig"] is None:
            files = _in_cluster(config, configuration, asked["service_account"])
            expires_at = None
            namespace = _namespace_of_pod(asked["service_account"])
        else:
            files, expires_at, namespace = await _kubeconfig(configuration, asked, directory)
        return {
            "server": configuration.host,
            "verify": bool(configuration.verify_ssl),
            "authority": _content(configuration.ssl_ca_cert),
            "certificate": _content(configuration.cert_file),
            "key": _content(configuration.key_file),
            # the loader of a ServiceAccount keeps a trailing newline, which no header may have
            "authorization": str(configuration.api_key.get("BearerToken", "")).strip(),
            "server_name": configuration.tls_server_name,
            "proxy": configuration.proxy,
            "expires_at": expires_at,
            "files": files,
            "namespace": namespace or "default",
        }


def _in_cluster(config: Any, configuration: Any, service_account: str | None) -> list[str]:
    folder = Path(service_account or _SERVICE_ACCOUNT)
    token, authority = str(folder / "token"), str(folder / "ca.crt")
    config.load_incluster_config(
        configuration, try_refresh_token=False, token_filename=token, cert_filename=authority
    )
    return [token, authority]


async def _kubeconfig(
    configuration: Any, asked: dict[str, Any], directory: str
) -> tuple[list[str], float | None, str]:
    kube_config: Any = import_module("kubernetes_asyncio.config.kube_config")
    paths = [os.path.expanduser(p) for p in asked["kubeconfig"].split(os.pathsep) if p]
    found = [path for path in paths if os.path.exists(path)]
    if not found:
        # the caller names the file
        raise FileNotFoundError("no such file: name a kubeconfig with --kubeconfig or $KUBECONFIG")
    loader: Any = await kube_config.load_kube_config(
        config_file=asked["kubeconfig"],
        context=asked["context"],
        client_configuration=configuration,
        # would call its own hook with an argument that the hook does not take
        persist_config=False,
        temp_file_path=directory,
    )
    files = list(found)
    for node, names in ((loader._user, _USER_FILES), (loader._cluster, ("certificate-authority",))):
        if node is not None:
            base = os.path.dirname(os.path.abspath(node.path or found[0]))
            files += [os.path.normpath(Path(base, str(node[n]))) for n in names if n in node]
    _prefer_token_file(configuration, loader)
    expiry = getattr(loader, "exec_plugin_expiry", None)
    expires_at = expiry.timestamp() if expiry is not None else None
    return files, expires_at, _namespace_of_context(loader)


def _namespace_of_context(loader: Any) -> str:
    context: Any = loader.current_context
    named: Any = context.get("context")
    return str(named.get("namespace") or "") if named else ""


def _namespace_of_pod(service_account: str | None) -> str:
    file = Path(service_account or _SERVICE_ACCOUNT, "namespace")
    return file.read_text(encoding="utf-8").strip() if file.is_file() else ""


def _prefer_token_file(configuration: Any, loader: Any) -> None:
    # as in client-go, and in the documentation of kubeconfig; the loader prefers the token
    user = loader._user
    if user is None or "exec" in user or "tokenFile" not in user or "token" not in user:
        return
    base = os.path.dirname(os.path.abspath(user.path))
    token = Path(base, user["tokenFile"]).read_text(encoding="utf-8").strip()
    configuration.api_key["BearerToken"] = f"Bearer {token}"


def _content(path: str | None) -> str | None:
    return Path(path).read_text(encoding="utf-8") if path else None


def main() -> int:
    """Read the arguments from standard input, and print the access or the problem as JSON."""
    asked: dict[str, Any] = json.load(sys.stdin)
    try:
        answer = asyncio.run(_read(asked))
    except ModuleNotFoundError as error:
        answer = {"missing": error.name}
    except Exception as error:  # the loader raises many kinds; each is a problem of the input
        answer = {"problem": str(error) or type(error).__name__}
    json.dump(answer, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
