package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version describes this program from what the Go tool has put into it: the version of the module, and,
// in a checkout, the revision.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
	}
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if rev := settings["vcs.revision"]; rev != "" && v == "devel" {
		v += " " + rev[:min(12, len(rev))]
		if settings["vcs.modified"] == "true" {
			v += " (modified)"
		}
	}
	return v
}

// versionLine is what --version prints.
func (a *app) versionLine() string {
	return fmt.Sprintf("%s %s, %s, %s/%s", a.name(), version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
