package cliout

import "runtime/debug"

// release is the version of a release; make release sets it.
var release string

// Version describes a program: the version of its release or of its module, or, in a checkout, the revision.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	switch {
	case release != "":
		return release
	case !ok:
		return "unknown"
	}
	return VersionOf(info)
}

// VersionOf is Version of what the Go tool has put into a program.
func VersionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	v := "devel"
	if rev := settings["vcs.revision"]; rev != "" {
		v += " " + rev[:min(12, len(rev))]
		if settings["vcs.modified"] == "true" {
			v += " (modified)"
		}
	}
	return v
}
