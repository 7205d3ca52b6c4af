# SPDX-License-Identifier: Apache-2.0
"""A registry on loopback (Debian's docker-registry) and images that are made on the spot."""
import base64
import contextlib
import gzip
import hashlib
import http.client
import io
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tarfile
import time

import pytest

from ports import free_port

OCI = "application/vnd.oci.image."
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
USER, PASSWORD = "somebody", "s3cret pass"
PROGRAM = "/usr/bin/docker-registry"


def digest_of(data, kind="sha256"):
    return f"{kind}:{hashlib.new(kind, data).hexdigest()}"


def tar_of(files):
    """A tar of {name: bytes, or None for a directory, or a tarfile.TarInfo}."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in files.items():
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
                continue
            info = tarfile.TarInfo(name)
            info.mtime = 1700000000
            if content is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(info)
            else:
                info.size, info.mode = len(content), 0o755
                tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def zstd(data):
    return subprocess.run(["zstd", "-q", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout


class Image:
    """An image of layers (tars, or what is packed already, with the digest of its content), in memory: blobs by digest, the
    manifest's bytes and type. KIND is what its digests are."""

    def __init__(self, layers, config=None, arch="amd64", os_name="linux", compress="gzip", docker=False, kind="sha256"):
        self.kind = kind
        packers = {"gzip": lambda d: gzip.compress(d, 1, mtime=0), "zstd": zstd, "": lambda d: d}
        self.blobs, self.layers, entries = {}, [], []
        packed = [tar if isinstance(tar, tuple) else (packers[compress](tar), self.digest_of(tar)) for tar in layers]
        for data, _ in packed:
            self.add(data)
            self.layers.append(self.digest_of(data))
            suffix = ("." if docker else "+") + compress if compress else ""
            media = "application/vnd.docker.image.rootfs.diff.tar" if docker else OCI + "layer.v1.tar"
            entries.append({"mediaType": media + suffix, "digest": self.digest_of(data), "size": len(data)})
        self.config = json.dumps({
            "os": os_name, "architecture": arch, "config": config or {},
            "rootfs": {"type": "layers", "diff_ids": [digest for _, digest in packed]},
        }).encode()
        self.add(self.config)
        config_type = "application/vnd.docker.container.image.v1+json" if docker else OCI + "config.v1+json"
        self.type = DOCKER_MANIFEST if docker else OCI + "manifest.v1+json"
        self.manifest = json.dumps({
            "schemaVersion": 2, "mediaType": self.type,
            "config": {"mediaType": config_type, "digest": self.digest_of(self.config), "size": len(self.config)}, "layers": entries,
        }).encode()
        self.platform = {"os": os_name, "architecture": arch}

    def digest_of(self, data):
        return digest_of(data, self.kind)

    def add(self, data):
        self.blobs[self.digest_of(data)] = data

    @property
    def digest(self):
        return self.digest_of(self.manifest)

    def descriptor(self):
        return {"mediaType": self.type, "digest": self.digest, "size": len(self.manifest), "platform": self.platform}


def index_of(*images):
    return json.dumps({"schemaVersion": 2, "mediaType": OCI + "index.v1+json",
                       "manifests": [i.descriptor() for i in images]}).encode()


def make_certificate(folder, name="localhost"):
    """A self-signed one for NAME and 127.0.0.1; paths of it and of its key."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1", "-keyout", key, "-out", cert],
                   check=True, capture_output=True)
    cert.chmod(0o644)
    return cert, key


class Registry:
    """docker-registry with its files in FOLDER. `host` is what stands in front of image names."""

    def __init__(self, folder, with_password=False, with_tls=False):
        self.port = free_port()
        self.host = f"127.0.0.1:{self.port}"
        self.auth = {}
        self.cert = None
        folder.mkdir(parents=True, exist_ok=True)
        config = {"version": 0.1, "log": {"level": "error"}, "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
                  "http": {"addr": self.host}}
        if with_tls:
            self.cert, key = make_certificate(folder)
            config["http"]["tls"] = {"certificate": str(self.cert), "key": str(key)}
        if with_password:
            line = subprocess.run(["htpasswd", "-nbB", USER, PASSWORD], check=True, capture_output=True, text=True).stdout
            (folder / "htpasswd").write_text(line)
            config["auth"] = {"htpasswd": {"realm": "test", "path": str(folder / "htpasswd")}}
            pair = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            self.auth = {"Authorization": f"Basic {pair}"}
        (folder / "config.yml").write_text(json.dumps(config))
        self.log = open(folder / "log", "wb")
        self.process = subprocess.Popen([PROGRAM, "serve", folder / "config.yml"], stdout=self.log, stderr=self.log,
                                        env={"HOME": str(folder), "PATH": os.environ["PATH"], "OTEL_TRACES_EXPORTER": "none"})
        deadline = time.monotonic() + 15
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                break
            assert self.process.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.05)

    def connection(self):
        if self.cert:
            return http.client.HTTPSConnection("127.0.0.1", self.port, context=ssl._create_unverified_context(), timeout=60)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def send(self, method, path, body=None, **headers):
        c = self.connection()
        try:
            c.request(method, path, body=body, headers={**self.auth, **headers})
            r = c.getresponse()
            return r.status, dict(r.headers), r.read()
        finally:
            c.close()

    def push_blob(self, name, data):
        status, headers, body = self.send("POST", f"/v2/{name}/blobs/uploads/")
        assert status == 202, body
        where = headers["Location"].split("/", 3)[-1]
        status, _, body = self.send("PUT", f"/{where}&digest={digest_of(data)}", data, **{"Content-Type": "application/octet-stream"})
        assert status == 201, body

    def push_manifest(self, name, tag, manifest, kind):
        status, _, body = self.send("PUT", f"/v2/{name}/manifests/{tag}", manifest, **{"Content-Type": kind})
        assert status == 201, body

    def push(self, name, tag, *images):
        """One image, or an index of several. Returns what to ask for."""
        for image in images:
            for data in image.blobs.values():
                self.push_blob(name, data)
            self.push_manifest(name, tag if len(images) == 1 else image.digest, image.manifest, image.type)
        if len(images) > 1:
            self.push_manifest(name, tag, index_of(*images), OCI + "index.v1+json")
        return f"{self.host}/{name}:{tag}"

    def stop(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.log.close()


def is_installed():
    return os.path.exists(PROGRAM) and shutil.which("htpasswd") is not None


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    r = Registry(tmp_path_factory.mktemp("plain") / "r")
    yield r
    r.stop()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    r = Registry(tmp_path_factory.mktemp("guarded") / "r", with_password=True)
    yield r
    r.stop()
