"""Files for clusters that the documentation shows: they are read, and name what there is."""

from pathlib import Path

import yaml

DOCS = Path(__file__).parents[2] / "docs" / "cluster"


def test_the_manifest_for_kubernetes() -> None:
    cluster, claim = yaml.safe_load_all((DOCS / "kuberay.yaml").read_text())
    assert (cluster["apiVersion"], cluster["kind"]) == ("ray.io/v1", "RayCluster")
    spec = cluster["spec"]
    assert spec["authOptions"] == {"mode": "token"}
    groups = {group["groupName"]: group for group in spec["workerGroupSpecs"]}
    assert set(groups) == {"shards", "actors"}
    for group in (spec["headGroupSpec"], *groups.values()):
        (container,) = group["template"]["spec"]["containers"]
        assert {"name", "image", "resources"} <= set(container)
        assert isinstance(group["rayStartParams"], dict)
    for group in (spec["headGroupSpec"], groups["shards"]):
        volumes = group["template"]["spec"]["volumes"]
        mounts = group["template"]["spec"]["containers"][0]["volumeMounts"]
        assert [mount["name"] for mount in mounts] == [volume["name"] for volume in volumes]
        assert volumes[0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    for group in groups.values():
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]


def test_the_file_for_ray_up() -> None:
    cluster = yaml.safe_load((DOCS / "ray-up.yaml").read_text())
    assert {"cluster_name", "max_workers", "provider", "auth"} <= set(cluster)
    assert len(cluster["provider"]["worker_ips"]) == cluster["max_workers"]
    assert all(
        "RAY_AUTH_MODE=token" in cluster[name][-1] for name in ("head_start_ray_commands", "worker_start_ray_commands")
    )
