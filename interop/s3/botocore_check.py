"""Answers questions about signatures and objects with Amazon's own client. JSON on standard input and output."""

import datetime
import hashlib
import json
import sys
from unittest import mock

import boto3
import botocore.auth
import botocore.awsrequest
import botocore.config
import botocore.credentials


def signature(request):
    """The signature that botocore gives to one request."""
    credentials = botocore.credentials.Credentials(request["id"], request["secret"], request.get("token"))
    signer = botocore.auth.S3SigV4Auth(credentials, "s3", request["region"])
    made = botocore.awsrequest.AWSRequest(
        method=request["method"], url=request["url"], headers=request["headers"], data=request["body"].encode()
    )
    made.context["payload_signing_enabled"] = True
    moment = datetime.datetime.strptime(request["time"], "%Y%m%dT%H%M%SZ")
    with mock.patch("botocore.auth.get_current_datetime", lambda *args, **kwargs: moment):
        signer.add_auth(made)
    return made.headers["Authorization"].split("Signature=")[1]


def client(store):
    return boto3.client(
        "s3",
        endpoint_url=store["endpoint"],
        aws_access_key_id=store["id"],
        aws_secret_access_key=store["secret"],
        region_name="us-east-1",
        config=botocore.config.Config(s3={"addressing_style": "path"}),
    )


def digest(store, key):
    """SHA-256 of an object, or null if there is none; the client checks the object's own checksum while reading."""
    s3 = client(store)
    try:
        body = s3.get_object(Bucket=store["bucket"], Key=key, ChecksumMode="ENABLED")["Body"]
    except s3.exceptions.NoSuchKey:
        return None
    found = hashlib.sha256()
    for piece in iter(lambda: body.read(1 << 20), b""):
        found.update(piece)
    return found.hexdigest()


def uploads(store):
    """Keys of uploads that were begun and neither completed nor aborted."""
    reply = client(store).list_multipart_uploads(Bucket=store["bucket"])
    return [upload["Key"] for upload in reply.get("Uploads", [])]


def download(store, key):
    """Seconds of the client's own parallel download; the bytes are dropped."""
    from boto3.s3.transfer import TransferConfig

    class Nowhere:
        position = 0

        def seek(self, offset, whence=0):
            self.position = offset
            return offset

        def tell(self):
            return self.position

        def seekable(self):
            return True

        def write(self, piece):
            self.position += len(piece)
            return len(piece)

    start = datetime.datetime.now()
    config = TransferConfig(max_concurrency=8, multipart_chunksize=16 << 20)
    client(store).download_fileobj(store["bucket"], key, Nowhere(), Config=config)
    return (datetime.datetime.now() - start).total_seconds()


def main():
    asked = json.load(sys.stdin)
    store = asked.get("store")
    answers = {
        "signatures": lambda: [signature(request) for request in asked["requests"]],
        "bucket": lambda: client(store).create_bucket(Bucket=store["bucket"]) and None,
        "digests": lambda: {key: digest(store, key) for key in asked["keys"]},
        "uploads": lambda: uploads(store),
        "download": lambda: download(store, asked["key"]),
    }
    json.dump(answers[asked["question"]](), sys.stdout)


main()
