// Reads the manifests of a file as Kubernetes does: no field may be unknown.
package main

import (
	"fmt"
	"os"
	"strings"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	text, err := os.ReadFile(os.Args[1])
	check(err)
	for _, document := range strings.Split(string(text), "\n---\n") {
		var kind struct{ Kind string }
		check(yaml.Unmarshal([]byte(document), &kind))
		switch kind.Kind {
		case "ConfigMap":
			check(yaml.UnmarshalStrict([]byte(document), &core.ConfigMap{}))
		case "DaemonSet":
			var set apps.DaemonSet
			check(yaml.UnmarshalStrict([]byte(document), &set))
			for _, container := range set.Spec.Template.Spec.Containers {
				fmt.Println(container.Name, container.SecurityContext.Capabilities.Add)
			}
		default:
			check(fmt.Errorf("unexpected %q", kind.Kind))
		}
	}
}
