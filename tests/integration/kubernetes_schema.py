"""What the Kubernetes API accepts for the kinds in packaging/kubernetes, as a strict JSON schema for checks without a cluster. It has the fields of
apps/v1 and v1 that pods of agents, collectors and training jobs use. Any other field fails: it is a typo, or the schema needs it.
The class Api checks against the definitions of a real cluster, for users who have them: the OpenAPI file (`kubectl get --raw /openapi/v2`, 4 MB, not
stored here)."""

import json

NAME = {"type": "string", "pattern": r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"}
LABEL_NAME = {"type": "string", "pattern": r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}
STRING = {"type": "string"}
BOOLEAN = {"type": "boolean"}
COUNT = {"type": "integer", "minimum": 0}
PORT = {"type": "integer", "minimum": 1, "maximum": 65535}
# Matches 500Gi, 50m and "1", with the API's suffixes.
QUANTITY = {"type": ["string", "integer"], "pattern": r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"}
PATH = {"type": "string", "pattern": "^/"}
MODE = {"type": "integer", "minimum": 0, "maximum": 0o777}


def strict(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def many(items, least=0):
    return {"type": "array", "items": items, "minItems": least}


def of_names(values):
    return {"type": "object", "additionalProperties": values}


def one_of(*values):
    return {"enum": list(values)}


METADATA = strict(["name"], name=NAME, namespace=LABEL_NAME, labels=of_names(STRING), annotations=of_names(STRING))
TEMPLATE_METADATA = strict(name=NAME, labels=of_names(STRING), annotations=of_names(STRING))
SELECTOR = strict(["matchLabels"], matchLabels=of_names(STRING))
RESOURCES = strict(requests=of_names(QUANTITY), limits=of_names(QUANTITY))
CAPABILITIES = strict(add=many({"type": "string", "pattern": "^[A-Z_]+$"}), drop=many({"type": "string", "pattern": "^[A-Z_]+$"}))

ENVIRONMENT = {"type": "object", "required": ["name"], "additionalProperties": False,
               "properties": {"name": {"type": "string", "pattern": "^[-._a-zA-Z][-._a-zA-Z0-9]*$"}, "value": STRING,
                              "valueFrom": strict(fieldRef=strict(["fieldPath"], apiVersion=STRING, fieldPath={
                                  "enum": ["metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
                                           "status.hostIP", "status.podIP"]}),
                                  secretKeyRef=strict(["name", "key"], name=NAME, key=STRING, optional=BOOLEAN),
                                  configMapKeyRef=strict(["name", "key"], name=NAME, key=STRING, optional=BOOLEAN))},
               "not": {"required": ["value", "valueFrom"]}}

CONTAINER = strict(
    ["name", "image"], name=LABEL_NAME, image=STRING, imagePullPolicy=one_of("Always", "IfNotPresent", "Never"), command=many(STRING, 1), args=many(STRING),
    env=many(ENVIRONMENT), workingDir=PATH, resources=RESOURCES,
    ports=many(strict(["containerPort"], name=LABEL_NAME, containerPort=PORT, hostPort=PORT, protocol=one_of("TCP", "UDP", "SCTP"))),
    volumeMounts=many(strict(["name", "mountPath"], name=LABEL_NAME, mountPath=PATH, subPath=STRING, readOnly=BOOLEAN,
                             mountPropagation=one_of("None", "HostToContainer", "Bidirectional"))),
    securityContext=strict(privileged=BOOLEAN, runAsUser=COUNT, runAsGroup=COUNT, runAsNonRoot=BOOLEAN, readOnlyRootFilesystem=BOOLEAN,
                           allowPrivilegeEscalation=BOOLEAN, capabilities=CAPABILITIES))

# A volume has a name and exactly one source.
VOLUME = {**strict(["name"], name=LABEL_NAME,
                   emptyDir=strict(medium=one_of("", "Memory"), sizeLimit=QUANTITY),
                   hostPath=strict(["path"], path=PATH, type=one_of("", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice")),
                   secret=strict(["secretName"], secretName=NAME, defaultMode=MODE, optional=BOOLEAN,
                                 items=many(strict(["key", "path"], key=STRING, path=STRING, mode=MODE))),
                   configMap=strict(["name"], name=NAME, defaultMode=MODE, optional=BOOLEAN),
                   persistentVolumeClaim=strict(["claimName"], claimName=NAME, readOnly=BOOLEAN)),
          "minProperties": 2, "maxProperties": 2}

POD = strict(
    ["containers"], containers=many(CONTAINER, 1), initContainers=many(CONTAINER), volumes=many(VOLUME), hostPID=BOOLEAN, hostIPC=BOOLEAN, hostNetwork=BOOLEAN,
    restartPolicy=one_of("Always", "OnFailure", "Never"), serviceAccountName=NAME, automountServiceAccountToken=BOOLEAN, nodeSelector=of_names(STRING),
    priorityClassName=NAME, terminationGracePeriodSeconds=COUNT, shareProcessNamespace=BOOLEAN,
    dnsPolicy=one_of("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    securityContext=strict(runAsNonRoot=BOOLEAN, runAsUser=COUNT, runAsGroup=COUNT, fsGroup=COUNT, supplementalGroups=many(COUNT),
                           seccompProfile=strict(["type"], type=one_of("RuntimeDefault", "Unconfined", "Localhost"), localhostProfile=STRING)),
    tolerations=many(strict(key=STRING, operator=one_of("Exists", "Equal"), value=STRING, effect=one_of("NoSchedule", "PreferNoSchedule", "NoExecute"))))
TEMPLATE = strict(["metadata", "spec"], metadata=TEMPLATE_METADATA, spec=POD)


def document(version, kind, **parts):
    return strict(["apiVersion", "kind", "metadata", *parts], apiVersion={"const": version}, kind={"const": kind}, metadata=METADATA, **parts)


KINDS = {
    "Namespace": document("v1", "Namespace"),
    "PersistentVolumeClaim": document("v1", "PersistentVolumeClaim", spec=strict(
        ["accessModes", "resources"], accessModes=many(one_of("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"), 1), resources=RESOURCES,
        storageClassName=NAME, volumeMode=one_of("Filesystem", "Block"))),
    "Service": document("v1", "Service", spec=strict(
        ["ports"], selector=of_names(STRING), type=one_of("ClusterIP", "NodePort", "LoadBalancer"), clusterIP=STRING,
        ports=many(strict(["port"], name=LABEL_NAME, port=PORT, targetPort={"anyOf": [PORT, LABEL_NAME]}, protocol=one_of("TCP", "UDP", "SCTP"), nodePort=PORT), 1))),
    "Deployment": document("apps/v1", "Deployment", spec=strict(
        ["selector", "template"], replicas=COUNT, selector=SELECTOR, template=TEMPLATE, minReadySeconds=COUNT, revisionHistoryLimit=COUNT,
        strategy=strict(type=one_of("Recreate", "RollingUpdate")))),
    "DaemonSet": document("apps/v1", "DaemonSet", spec=strict(
        ["selector", "template"], selector=SELECTOR, template=TEMPLATE, minReadySeconds=COUNT, revisionHistoryLimit=COUNT,
        updateStrategy=strict(type=one_of("OnDelete", "RollingUpdate")))),
    "Pod": document("v1", "Pod", spec=POD),
}


class Api:
    """A cluster's OpenAPI (version 2) file. Rejects unknown fields, like a server's strict validation."""

    def __init__(self, path):
        with open(path) as file:
            self.definitions = {name: self.strict(each) for name, each in json.load(file)["definitions"].items()}
        # The file declares a string, but servers also accept numbers.
        self.definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"] = {"type": ["string", "number"]}
        self.kinds = {("/".join(filter(None, (kind["group"], kind["version"]))), kind["kind"]): name
                      for name, each in self.definitions.items() for kind in each.get("x-kubernetes-group-version-kind", [])}

    def strict(self, node):
        if isinstance(node, list):
            return [self.strict(each) for each in node]
        if not isinstance(node, dict):
            return node
        made = {key: self.strict(value) for key, value in node.items()}
        if made.get("format") == "int-or-string":
            made["type"] = ["string", "integer"]
        if isinstance(made.get("properties"), dict):
            made.setdefault("additionalProperties", False)
        return made

    def schema(self, document):
        return {"$ref": "#/definitions/" + self.kinds[document["apiVersion"], document["kind"]], "definitions": self.definitions}

    def unknown(self, schema, node, path):
        """Yields the paths of fields of our schema that the API does not have."""
        while "$ref" in node or len(node.get("allOf", [])) == 1:
            node = self.definitions[node["$ref"].rpartition("/")[2]] if "$ref" in node else node["allOf"][0]
        if "items" in schema:
            yield from self.unknown(schema["items"], node.get("items", {}), path + "/*")
        for name, each in schema.get("properties", {}).items():
            if name in node.get("properties", {}):
                yield from self.unknown(each, node["properties"][name], f"{path}/{name}")
            else:
                yield f"{path}/{name}"
