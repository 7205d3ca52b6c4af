# SPDX-License-Identifier: Apache-2.0
"""OCI images made on the spot, and trees that can be compared: what one tool unpacks must equal what another does."""
import gzip
import hashlib
import io
import json
import os
import stat
import subprocess
import tarfile

MTIME = 1_600_000_000


class Layer:
    """One blob: as it is stored, and what is in it."""

    def __init__(self, tar, form="gzip"):
        self.tar, self.form = tar, form
        self.blob = {"gzip": lambda: gzip.compress(tar, 1, mtime=0), "zstd": lambda: zstd(tar), "plain": lambda: tar}[form]()
        self.digest = hashlib.sha256(self.blob).digest()
        self.diff_id = hashlib.sha256(tar).digest()

    @property
    def media_type(self):
        return "application/vnd.oci.image.layer.v1.tar" + {"gzip": "+gzip", "zstd": "+zstd", "plain": ""}[self.form]


def zstd(data):
    return subprocess.run(["zstd", "-q", "-1"], input=data, capture_output=True, check=True).stdout


def member(name, kind=tarfile.REGTYPE, data=b"", xattrs=None, **more):
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode, info.mtime = kind, len(data), 0o755 if kind == tarfile.DIRTYPE else 0o644, MTIME
    info.pax_headers = {f"SCHILY.xattr.{key}": value for key, value in (xattrs or {}).items()}
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def folder(name, **more):
    return member(name, tarfile.DIRTYPE, **more)


def symlink(name, to, **more):
    return member(name, tarfile.SYMTYPE, linkname=to, mode=0o777, **more)


def hardlink(name, to, **more):
    return member(name, tarfile.LNKTYPE, linkname=to, **more)


def layer(members, form="gzip", base=()):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, data in (*base, *members):
            tar.addfile(info, io.BytesIO(data))
    return Layer(out.getvalue(), form)


def put_blob(layout, data):
    digest = hashlib.sha256(data).hexdigest()
    path = layout / "blobs/sha256" / digest
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return {"digest": f"sha256:{digest}", "size": len(data)}


def write_layout(layout, layers, tag="latest", config=None, arch="amd64"):
    """An OCI image layout, LAYERS lowest first."""
    config = {"architecture": arch, "os": "linux", "config": config or {}, "rootfs": {"type": "layers", "diff_ids": [
        f"sha256:{one.diff_id.hex()}" for one in layers]}, "history": [{"created_by": "a test"} for _ in layers]}
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": {
        "mediaType": "application/vnd.oci.image.config.v1+json", **put_blob(layout, json.dumps(config).encode())}, "layers": [
        {"mediaType": one.media_type, **put_blob(layout, one.blob)} for one in layers]}
    index = {"schemaVersion": 2, "manifests": [{
        "mediaType": "application/vnd.oci.image.manifest.v1+json", **put_blob(layout, json.dumps(manifest).encode()),
        "annotations": {"org.opencontainers.image.ref.name": tag}}]}
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (layout / "index.json").write_text(json.dumps(index))
    return layout


def describe(path, links):
    """All that can be told of one file, as a host without the sandbox's ids sees it."""
    st = os.lstat(path)
    kind = stat.S_IFMT(st.st_mode)
    facts = {"kind": kind, "mode": stat.S_IMODE(st.st_mode), "ids": (st.st_uid, st.st_gid), "mtime": st.st_mtime_ns // 10**9}
    if kind == stat.S_IFLNK:
        facts["target"] = os.readlink(path)
        return facts
    facts["xattrs"] = {name: os.getxattr(path, name) for name in os.listxattr(path) if name.startswith("user.")}
    if kind == stat.S_IFREG:
        facts["size"] = st.st_size
        with open(path, "rb") as f:
            facts["content"] = hashlib.sha256(f.read()).hexdigest()
        facts["link"] = links.setdefault(st.st_ino, len(links)) if st.st_nlink > 1 else None
    return facts


def tree(root):
    """Everything below ROOT by its path, hard links numbered in the order of names."""
    found, links = {}, {}
    for above, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(folders + files):
            path = os.path.join(above, name)
            found[os.path.relpath(path, root)] = None
    for name in sorted(found):
        found[name] = describe(os.path.join(root, name), links)
    return found
