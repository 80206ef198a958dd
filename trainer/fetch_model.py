"""Fetches a model from the hub into a folder, and goes on where an earlier fetch ended, also within a file.

    python fetch_model.py OWNER/NAME REVISION FOLDER
    python fetch_model.py OWNER/NAME REVISION FOLDER --confirm     waits for a line on stdin after the listing

Prints one JSON object per line: `listing`, `progress`, `result` or `error`. Address, token and cache are those of
huggingface_hub: HF_ENDPOINT, HF_TOKEN, HF_HOME. Exit code 0 after a `result`.
"""

import errno
import hashlib
import json
import os
import re
import shutil
import sys
import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

from huggingface_hub import HfApi, constants, hf_hub_url, snapshot_download, try_to_load_from_cache
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.file_download import http_get
from huggingface_hub.utils import build_hf_headers

# How much a kill can lose, as only whole pieces are written.
constants.DOWNLOAD_CHUNK_SIZE = 2**20

# Where a fetch comes from; it stays beside the weights, and says to the next try which commit the files are of.
SOURCE = "agl-source.json"
PARTIAL = ".partial"
AT_ONCE = 4
PROGRESS_SECONDS = 1.0
CANDIDATES = 50

USUAL_WEIGHTS = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors")
COMPANIONS = re.compile(r"(.+\.(json|jinja|txt|model|tiktoken)|LICENSE.*|NOTICE.*)")
# Other formats' settings and indexes of weights that are not fetched.
NOT_NEEDED = re.compile(r"(.*\.(bin|h5|msgpack)\.index\.json|.*onnx.*|README.*)")


@dataclass(frozen=True)
class HubFile:
    path: str
    size: int
    # SHA-256 of what lies in large file storage, else the id that git gives to the content.
    sha256: str | None
    blob: str

    @property
    def digest(self) -> str:
        return self.sha256 or self.blob


class Failed(Exception):
    def __init__(self, reason: str, message: str, **fields: object) -> None:
        super().__init__(message)
        self.reason = reason
        self.fields = fields


class Printer:
    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __call__(self, kind: str, **fields: object) -> None:
        with self._lock:
            print(json.dumps({"kind": kind, **fields}), flush=True)


def main(arguments: list[str]) -> int:
    name, revision, target, *options = arguments
    say = Printer()
    folder = Path(target)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        commit, files = fetch(name, revision, folder, say, confirm="--confirm" in options)
    except Exception as error:
        failed = explain(error, name, revision)
        say("error", reason=failed.reason, message=str(failed), **failed.fields)
        return 1
    say("result", commit=commit, files=files)
    return 0


def fetch(name: str, revision: str, folder: Path, say: Printer, confirm: bool) -> tuple[str, int]:
    try:
        commit, everything, parameters = list_files(name, revision)
    except Exception as error:
        if not is_network(error):
            raise
        cached = from_cache(name, revision, folder, say)
        if cached is None:
            raise
        return cached
    known = {} if parameters is None else {"parameters": parameters}
    say("listing", files={file.path: file.size for file in everything}, **known)
    if confirm and sys.stdin.readline() == "":
        raise Failed("other", "nobody wants it")
    files = needed(everything)
    forget_other_commit(folder, commit)
    write_source(name, revision, folder, commit)
    (folder / PARTIAL).mkdir(exist_ok=True)
    fetch_all(name, commit, files, folder, say)
    shutil.rmtree(folder / PARTIAL)
    return commit, len(files)


def list_files(name: str, revision: str) -> tuple[str, list[HubFile], int | None]:
    """-> the commit, its files, and the number of parameters where the hub has counted them."""
    api = HfApi()
    info = api.model_info(name, revision=revision)
    entries = api.list_repo_tree(name, revision=info.sha)
    files = [
        HubFile(entry.path, entry.size, entry.lfs.sha256 if entry.lfs else None, entry.blob_id)
        for entry in entries
        if hasattr(entry, "blob_id")
    ]
    return info.sha, files, getattr(info.safetensors, "total", None)


def needed(files: list[HubFile]) -> list[HubFile]:
    """Weights once, tokenizer, configuration, chat template; small files first, as they show most faults."""
    names = {file.path for file in files}
    return sorted((file for file in files if file.path in needed_names(names)), key=lambda file: file.size)


def needed_names(names: set[str]) -> set[str]:
    weights = {name for name in names if name.endswith(".safetensors") and not name.startswith("adapter_")}
    usual = {name for name in weights if USUAL_WEIGHTS.fullmatch(name)}
    companions = {name for name in names if COMPANIONS.fullmatch(name) and not NOT_NEEDED.fullmatch(name)}
    return (usual or weights) | companions


def forget_other_commit(folder: Path, commit: str) -> None:
    """Files of two commits never make one model."""
    source = folder / SOURCE
    if not source.exists():
        if any(folder.iterdir()):
            raise Failed("folder", f"{folder} holds files that are not of a fetch")
        return
    try:
        known = json.loads(source.read_text())["commit"]
    except (ValueError, KeyError):
        known = None
    if known != commit:
        shutil.rmtree(folder)
        folder.mkdir()


def write_source(name: str, revision: str, folder: Path, commit: str) -> None:
    source = {"base_model": name, "revision": revision, "commit": commit}
    (folder / SOURCE).write_text(json.dumps(source) + "\n", encoding="utf-8")


def fetch_all(name: str, commit: str, files: list[HubFile], folder: Path, say: Printer) -> None:
    total = sum(file.size for file in files)
    pool = ThreadPoolExecutor(AT_ONCE)
    waiting = {pool.submit(fetch_file, name, commit, file, folder) for file in files}
    try:
        while waiting:
            say("progress", bytes=sum(bytes_here(folder, file) for file in files), total=total)
            done, waiting = wait(waiting, PROGRESS_SECONDS, FIRST_COMPLETED)
            for future in done:
                future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    say("progress", bytes=total, total=total)


def partial_of(folder: Path, file: HubFile) -> Path:
    return folder / PARTIAL / f"{file.path}.{file.digest[:16]}"


def bytes_here(folder: Path, file: HubFile) -> int:
    for path in (folder / file.path, partial_of(folder, file)):
        try:
            return path.stat().st_size
        except OSError:
            continue
    return 0


def fetch_file(name: str, commit: str, file: HubFile, folder: Path) -> None:
    final, partial = folder / file.path, partial_of(folder, file)
    if final.exists() and final.stat().st_size == file.size:
        return
    cached = try_to_load_from_cache(name, file.path, revision=commit)
    if isinstance(cached, str) and digest_of(Path(cached), file) == file.digest:
        shutil.copyfile(cached, partial)
    else:
        download(name, commit, file, partial)
        if digest_of(partial, file) != file.digest:
            # A partial file that was damaged, or a server that ignores ranges.
            partial.unlink()
            download(name, commit, file, partial)
            if digest_of(partial, file) != file.digest:
                partial.unlink()
                raise Failed("damaged", f"{file.path} arrived twice with another content than the hub lists")
    partial.replace(final)


def download(name: str, commit: str, file: HubFile, partial: Path) -> None:
    # Not huggingface_hub's own way to a file: that one begins anew after a kill.
    with partial.open("ab") as out:
        if out.tell() > file.size:
            out.truncate(0)
            out.seek(0)
        if out.tell() == file.size:
            return
        url = hf_hub_url(name, file.path, revision=commit)
        http_get(url, out, resume_size=out.tell(), headers=build_hf_headers(), expected_size=file.size)


def digest_of(path: Path, file: HubFile) -> str:
    with path.open("rb") as content:
        if file.sha256 is not None:
            return hashlib.file_digest(content, "sha256").hexdigest()
        return hashlib.sha1(f"blob {path.stat().st_size}\0".encode() + content.read()).hexdigest()


def from_cache(name: str, revision: str, folder: Path, say: Printer) -> tuple[str, int] | None:
    """Without a network: a snapshot that huggingface_hub has in its own cache, when it is whole."""
    try:
        snapshot = Path(
            snapshot_download(
                name,
                revision=revision,
                local_files_only=True,
                allow_patterns=["*.safetensors", "*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken"],
                ignore_patterns=["*/*"],
            )
        )
    except (OSError, ValueError):
        return None
    names = {path.name for path in snapshot.iterdir() if path.is_file()}
    wanted = needed_names(names)
    if not any(each.endswith(".safetensors") for each in wanted):
        return None
    say("listing", files={each: (snapshot / each).stat().st_size for each in sorted(names)})
    commit = snapshot.name
    forget_other_commit(folder, commit)
    write_source(name, revision, folder, commit)
    for each in sorted(wanted):
        shutil.copyfile(snapshot / each, folder / each)
    return commit, len(wanted)


def is_network(error: BaseException) -> bool:
    if isinstance(error, HfHubHTTPError):
        return False
    if isinstance(error, (OfflineModeIsEnabled, ConnectionError, TimeoutError)):
        return True
    # The HTTP library differs between versions of huggingface_hub: requests, httpx, httpx2.
    module = type(error).__module__.split(".")[0]
    return module.startswith(("httpx", "httpcore", "requests", "urllib3"))


def explain(error: BaseException, name: str, revision: str) -> Failed:
    page = f"{constants.ENDPOINT}/{name}"
    if isinstance(error, Failed):
        return error
    if isinstance(error, GatedRepoError):
        return Failed("gated", f"{name} is gated", page=page)
    if isinstance(error, RepositoryNotFoundError):
        return Failed("unknown", f"{name} is not there", page=page, candidates=similar(name))
    if isinstance(error, RevisionNotFoundError):
        return Failed("revision", f"{name} has no revision {revision}", candidates=revisions(name))
    if isinstance(error, HFValidationError):
        return Failed("name", str(error))
    if isinstance(error, HfHubHTTPError):
        status = error.response.status_code
        reason = {401: "token", 403: "gated", 404: "unknown"}.get(status, "server")
        return Failed(reason, f"status {status}", page=page)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Failed("disk", "no space left on device")
    if is_network(error):
        return Failed("network", f"{constants.ENDPOINT}: {first_line(error)}")
    return Failed("other", f"{type(error).__name__}: {first_line(error)}")


def similar(name: str) -> list[str]:
    """Models of a like name, for a suggestion; best effort."""
    try:
        return [model.id for model in HfApi().list_models(search=name.split("/")[-1][:12], limit=CANDIDATES)]
    except Exception:
        return []


def revisions(name: str) -> list[str]:
    try:
        refs = HfApi().list_repo_refs(name)
        return [ref.name for ref in [*refs.branches, *refs.tags]][:CANDIDATES]
    except Exception:
        return []


def first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0][:300]


if __name__ == "__main__":
    code = main(sys.argv[1:])
    # Downloads that are still under way would keep the process; their partial files are good for the next try.
    os._exit(code)
