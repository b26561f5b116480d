"""Libraries with which Spark reads buckets: hadoop-aws of its Hadoop, and parts of the AWS SDK.

hadoop-aws depends on a bundle of the whole SDK, 690 MB; the needed parts take 15 MB.
"""

from loadstone.engines import spark_engine

SDK = "2.35.4"
SDK_PARTS = ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")


def pom() -> str:
    """Return a project of Maven whose dependencies are these libraries."""
    hadoop = _dependency(
        "org.apache.hadoop",
        "hadoop-aws",
        spark_engine.hadoop_version(),
        without=("software.amazon.awssdk:bundle", "org.apache.hadoop:*"),
    )
    parts = "".join(_dependency("software.amazon.awssdk", name, SDK) for name in SDK_PARTS)
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>local</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<dependencies>{hadoop}{parts}</dependencies></project>\n"
    )


def _dependency(group: str, artifact: str, version: str, without: tuple[str, ...] = ()) -> str:
    left_out = "".join(
        "<exclusion><groupId>{}</groupId><artifactId>{}</artifactId></exclusion>".format(
            *name.split(":")
        )
        for name in without
    )
    exclusions = f"<exclusions>{left_out}</exclusions>" if left_out else ""
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{exclusions}</dependency>"
    )
