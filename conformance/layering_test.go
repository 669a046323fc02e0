package main

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/stag-rdma/stag"

// goPackage is what `go list -json` says about a package, as far as these tests need it.
type goPackage struct {
	Dir          string
	ImportPath   string
	Name         string
	Imports      []string
	TestImports  []string
	XTestImports []string
	GoFiles      []string
	Standard     bool
	Module       *struct{ Path string }
}

// short returns the import path within the module: "rdmap/mpa".
func (p *goPackage) short() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

// listed holds the results of goList, by its arguments.
var listed = make(map[string][]*goPackage)

// goList runs `go list -json` with args at the root of the module, once.
func goList(t *testing.T, env []string, args ...string) []*goPackage {
	t.Helper()
	key := strings.Join(slices.Concat(env, args), " ")
	if listed[key] == nil {
		listed[key] = runGoList(t, env, args...)
	}
	return listed[key]
}

func runGoList(t *testing.T, env []string, args ...string) []*goPackage {
	t.Helper()
	args = append([]string{"list", "-json=Dir,ImportPath,Name,Imports,TestImports,XTestImports,GoFiles,Standard,Module"}, args...)
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("go %v: %v\n%s", args, err, exit.Stderr)
		}
		t.Fatalf("go %v: %v", args, err)
	}
	var pkgs []*goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := new(goPackage)
		if err := dec.Decode(p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// layer says what a package, or a tree of packages, may import directly besides the standard
// library. Names are paths within the module; a trailing "/..." stands for the tree.
type layer struct {
	name    string   // the package, or "name/..." for everything below it that has no row of its own
	may     []string // packages of this module
	modules []string // other modules
	pure    bool     // no I/O, no clock, no locks, no goroutines
	but     []string // what a pure package may import all the same
}

// floors lists the layers. The first row that matches a package counts.
var floors = []layer{
	{name: "xdr", pure: true},
	{name: "xdr/xdrreflect", may: []string{"internal/setting", "xdr"}, modules: []string{"github.com/rasky/go-xdr"}},
	{name: "chunks", may: []string{"xdr"}, pure: true},
	{name: "credits", pure: true},
	{name: "rpcrdma", may: []string{"chunks", "credits", "internal/setting", "xdr"}, pure: true},

	{name: "rdmap/mpa", may: []string{"internal/crc32c"}, pure: true},
	{name: "rdmap/ddp", pure: true},
	{name: "rdmap/region", may: []string{"internal/crc32c"}},
	{name: "rdmap/region/pmem/...", may: []string{"rdmap/region", "rdmap/region/pmem/..."}, modules: []string{"golang.org/x/sys"}},
	{name: "rdmap/verbs", may: []string{"rdmap/ddp", "rdmap/region", "internal/setting"}},
	{name: "rdmap/rdmaptest", may: []string{"rdmap/..."}, modules: []string{"go.uber.org/goleak", "golang.org/x/sys"}},
	{name: "rdmap/capture"},
	{name: "rdmap", may: []string{"internal/quick", "internal/reading", "rdmap/ddp", "rdmap/mpa", "rdmap/region", "rdmap/verbs", "rdmap/internal/...", "internal/peeraddr", "internal/setting"}, modules: []string{"go.uber.org/zap", "golang.org/x/sys"}},
	{name: "rdmap/internal/buf", may: []string{"rdmap/verbs"}},
	{
		name: "rdmap/internal/engine",
		may:  []string{"rdmap/ddp", "rdmap/mpa", "rdmap/region", "rdmap/verbs", "rdmap/internal/buf"}, pure: true, but: []string{"sync", "time"},
	},
	{name: "rdmap/internal/...", may: []string{"rdmap/ddp", "rdmap/mpa", "rdmap/region", "rdmap/verbs", "rdmap/internal/..."}, modules: []string{"golang.org/x/sys"}},

	{name: "internal/accept", may: []string{"internal/peeraddr"}, modules: []string{"go.uber.org/zap"}},
	{name: "internal/callid", may: []string{"xdr", "internal/crc32c", "internal/peeraddr"}},
	{name: "internal/crc32c", pure: true},
	{name: "internal/cliout"},
	{name: "internal/list", pure: true},
	{name: "internal/peeraddr"},
	{name: "internal/reading", may: []string{"internal/list", "internal/quick"}, modules: []string{"golang.org/x/sys"}},
	{name: "internal/setting"},
	{name: "internal/quick", modules: []string{"golang.org/x/sys"}},
	{name: "internal/shared"},
	{name: "internal/tlstest"},
	{name: "internal/gsstest", may: []string{"transport/gss"}},
	{
		name:    "conformance/internal/decode",
		may:     []string{"chunks", "rpcrdma", "xdr", "rdmap/ddp", "rdmap/mpa", "rdmap/verbs", "transport/commitlog", "nfsdemo/nfs3", "nfsdemo/mount3", "internal/list"},
		modules: []string{"github.com/gopacket/gopacket"},
	},

	{name: "transport/service", may: []string{"transport/rpc", "chunks", "xdr", "xdr/xdrreflect"}},
	{name: "transport/examples/kv", may: []string{"transport", "transport/rpc", "transport/service"}},
	{name: "transport/internal/memory", may: []string{"chunks", "rdmap", "rdmap/region", "xdr"}},
	{
		name:    "transport/internal/admit",
		may:     []string{"xdr", "credits", "rdmap", "rdmap/mpa", "internal/accept", "internal/peeraddr", "internal/shared", "transport/rpc", "transport/internal/memory"},
		modules: []string{"go.uber.org/zap"},
	},
	{
		name:    "transport/internal/execute",
		may:     []string{"chunks", "xdr", "internal/accept", "internal/callid", "internal/list", "internal/quick", "internal/shared", "internal/peeraddr", "transport/gss", "transport/rpc", "transport/internal/memory"},
		modules: []string{"go.uber.org/zap", "golang.org/x/sys"},
	},
	{
		name:    "transport/internal/requester",
		may:     []string{"chunks", "rpcrdma", "xdr", "rdmap", "rdmap/verbs", "rdmap/region", "internal/list", "transport/rpc", "transport/internal/memory"},
		modules: []string{"go.uber.org/zap"},
	},
	{
		name:    "transport/internal/responder",
		may:     []string{"chunks", "credits", "rpcrdma", "xdr", "rdmap", "rdmap/mpa", "rdmap/verbs", "rdmap/region", "internal/callid", "internal/list", "internal/peeraddr", "transport/rpc", "transport/internal/memory", "transport/internal/admit", "transport/internal/execute", "transport/internal/requester"},
		modules: []string{"go.uber.org/zap"},
	},
	{
		name:    "transport/internal/stream",
		may:     []string{"chunks", "xdr", "rdmap/mpa", "rdmap/verbs", "internal/peeraddr", "internal/quick", "internal/reading", "transport/rpc", "transport/internal/memory", "transport/internal/admit", "transport/internal/execute", "transport/internal/requester"},
		modules: []string{"golang.org/x/sys"},
	},
	{name: "transport/redial", may: []string{"internal/list", "internal/setting", "transport/rpc"}, modules: []string{"go.uber.org/zap"}},
	{name: "transport/gss/krb5", may: []string{"transport/gss"}, modules: []string{"github.com/jcmturner/gokrb5/v8", "github.com/jcmturner/gofork"}},
	{name: "transport/gss", may: []string{"internal/list", "internal/shared", "xdr"}},
	{name: "transport/rpc", may: []string{"chunks", "rpcrdma", "rdmap/mpa", "rdmap/verbs", "xdr", "internal/setting", "transport/gss", "transport/internal/memory"}},
	{name: "transport/rpcbind", may: []string{"transport", "transport/rpc", "xdr"}},
	{name: "transport/commitlog", may: []string{"internal/crc32c", "internal/setting", "rdmap", "rdmap/verbs", "rdmap/region"}},
	{
		name:    "transport/push",
		may:     []string{"internal/setting", "internal/shared", "transport", "transport/rpc", "transport/commitlog", "transport/internal/rendezvous", "rdmap", "rdmap/verbs", "rdmap/region", "rdmap/region/pmem", "xdr", "internal/accept", "internal/peeraddr"},
		modules: []string{"go.uber.org/zap"},
	},
	{
		name:    "transport/replies",
		may:     []string{"internal/setting", "internal/shared", "transport", "transport/redial", "transport/rpc", "transport/commitlog", "transport/internal/rendezvous", "rdmap", "rdmap/verbs", "rdmap/region", "rpcrdma", "xdr", "internal/accept", "internal/peeraddr"},
		modules: []string{"go.uber.org/zap"},
	},
	{name: "transport/internal/rendezvous", may: []string{"transport", "transport/rpc", "rdmap", "rdmap/verbs", "rdmap/mpa", "xdr", "internal/accept"}, modules: []string{"go.uber.org/zap"}},
	{
		name:    "transport/...",
		may:     []string{"rpcrdma", "chunks", "credits", "rdmap", "rdmap/verbs", "rdmap/mpa", "rdmap/region", "xdr", "internal/accept", "internal/callid", "internal/list", "internal/peeraddr", "internal/setting", "transport/..."},
		modules: []string{"go.uber.org/zap", "golang.org/x/sys"},
	},

	{name: "nfsdemo/internal/caller", modules: []string{"golang.org/x/sys"}},
	{name: "nfsdemo/internal/exports", may: []string{"nfsdemo/server", "xdr"}, modules: []string{"github.com/BurntSushi/toml"}},
	{name: "nfsdemo/internal/users", may: []string{"nfsdemo/server", "transport/gss"}, modules: []string{"golang.org/x/sys"}},
	{name: "nfsdemo/internal/crew"},
	{
		name:    "nfsdemo/backend/backendtest", // its server that lies speaks RDMA by hand
		may:     []string{"transport", "transport/rpc", "rdmap", "rdmap/mpa", "rpcrdma", "xdr", "nfsdemo/...", "internal/accept"},
		modules: []string{"golang.org/x/sys"},
	},
	{
		name:    "nfsdemo/proxy", // it asks bindings what of a call is data
		may:     []string{"chunks", "internal/setting", "nfsdemo/mount3", "nfsdemo/nfs3", "transport", "transport/rpc", "xdr"},
		modules: []string{"go.uber.org/zap"},
	},
	{
		name:    "nfsdemo/internal/ops", // the doctor runs the start-up as another machine would
		may:     []string{"internal/accept", "internal/peeraddr", "rdmap/mpa", "transport", "transport/gss", "transport/gss/krb5", "transport/rpc", "transport/rpcbind", "transport/push", "xdr", "nfsdemo/..."},
		modules: []string{"go.uber.org/zap", "github.com/prometheus/client_golang"},
	},
	{
		name: "nfsdemo/...",
		may: []string{
			"internal/accept", "internal/callid", "internal/cliout", "internal/peeraddr", "internal/quick", "internal/setting", "internal/shared", "transport", "transport/gss", "transport/gss/krb5", "transport/redial", "transport/rpc", "transport/commitlog", "transport/push", "transport/replies", "transport/rpcbind", "xdr",
			"rdmap/region", "rdmap/region/pmem", "rdmap/capture", "nfsdemo/...",
		},
		modules: []string{
			"go.uber.org/zap", "golang.org/x/net", "golang.org/x/sys", "golang.org/x/term", "github.com/spf13/cobra", "github.com/schollz/progressbar/v3", "github.com/coreos/go-systemd/v22",
			"github.com/prometheus/client_golang", "github.com/hashicorp/golang-lru/v2", "github.com/go-git/go-billy/v5",
		},
	},

	{
		name: "conformance/internal/probe/internal/cases",
		may:  []string{"rdmap", "rdmap/verbs", "rdmap/mpa", "rdmap/ddp", "rpcrdma", "chunks", "xdr"}, pure: true,
	},
	{
		name: "conformance/...",
		may:  []string{"..."},
		modules: []string{
			"github.com/gopacket/gopacket", "github.com/spf13/cobra", "github.com/schollz/progressbar/v3", "go.uber.org/zap", "golang.org/x/sys", "golang.org/x/term",
		},
	},
}

// impure lists what a pure package may not import, including everything below these paths.
var impure = []string{"net", "time", "sync", "os"}

// within reports whether pkg is pattern, or below it when pattern ends in "...".
func within(pkg, pattern string) bool {
	tree, ok := strings.CutSuffix(pattern, "...")
	if !ok {
		return pkg == pattern
	}
	return strings.HasPrefix(pkg+"/", tree)
}

func layerOf(pkg string) *layer {
	for i := range floors {
		if within(pkg, floors[i].name) {
			return &floors[i]
		}
	}
	return nil
}

// allowsModule reports whether imp belongs to a module the layer may use.
func (l *layer) allowsModule(imp string) bool {
	return slices.ContainsFunc(l.modules, func(m string) bool { return within(imp, m+"/...") })
}

func isStd(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return !strings.Contains(first, ".")
}

// breach returns why pkg, of layer l, may not import imp; "" if it may.
func (l *layer) breach(imp string) string {
	if isStd(imp) {
		if l.pure && slices.ContainsFunc(impure, func(p string) bool { return !slices.Contains(l.but, p) && within(imp, p+"/...") }) {
			return "the package is pure: octets and events, no I/O, clock or lock"
		}
		return ""
	}
	in, ok := strings.CutPrefix(imp, module+"/")
	if !ok {
		if !l.allowsModule(imp) {
			return "this module is not among those the layer may use"
		}
		return ""
	}
	if !slices.ContainsFunc(l.may, func(p string) bool { return within(in, p) }) {
		return "the layers have no such arrow"
	}
	return ""
}

// TestLayering reads the direct imports of every package, on Linux and on a system without the Linux-only
// files, and fails on an import that the layers do not allow.
func TestLayering(t *testing.T) {
	for _, goos := range []string{"linux", "darwin"} {
		for _, p := range goList(t, []string{"GOOS=" + goos}, "./...") {
			l := layerOf(p.short())
			if l == nil {
				t.Errorf("%s: no layer is named for this package: give it a row in the table", p.short())
				continue
			}
			for _, imp := range p.Imports {
				if why := l.breach(imp); why != "" {
					t.Errorf("GOOS=%s: %s imports %s: %s", goos, p.short(), imp, why)
				}
			}
		}
	}
}

// TestPureFiles: the machines of the commit log need no other file of their package, and are pure.
func TestPureFiles(t *testing.T) {
	pure := layer{name: "transport/commitlog", may: []string{"internal/crc32c", "rdmap/region", "rdmap/verbs"}, pure: true}
	var files []string
	for _, name := range []string{"format.go", "recovery.go", "consumer.go", "sender.go"} {
		file := "transport/commitlog/" + name
		files = append(files, file)
		f, err := parser.ParseFile(token.NewFileSet(), "../"+file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if why := pure.breach(strings.Trim(i.Path.Value, `"`)); why != "" {
				t.Errorf("%s imports %s: %s", file, i.Path.Value, why)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt:
				t.Errorf("%s: the machine has a goroutine or a channel", file)
			}
			return true
		})
	}
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"build", "-o", os.DevNull}, files...)...)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestNobodyImportsConformance: not even tests may, since the tests of conformance import everything.
func TestNobodyImportsConformance(t *testing.T) {
	for _, p := range goList(t, nil, "./...") {
		if within(p.short(), "conformance/...") {
			continue
		}
		for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if within(imp, module+"/conformance/...") {
				t.Errorf("%s imports %s", p.short(), imp)
			}
		}
	}
}

// TestTransportDependencies: users of transport need these modules and no others.
func TestTransportDependencies(t *testing.T) {
	allowed := []string{module, "golang.org/x/sys", "go.uber.org/zap", "go.uber.org/multierr", "github.com/rasky/go-xdr"}
	for _, p := range goList(t, nil, "-deps", "./transport") {
		if !p.Standard && p.Module != nil && !slices.Contains(allowed, p.Module.Path) {
			t.Errorf("transport depends on %s of module %s", p.ImportPath, p.Module.Path)
		}
	}
}

// TestLayerRules tests breach itself: it must object where it should.
func TestLayerRules(t *testing.T) {
	for _, tt := range []struct {
		pkg, imp string
		ok       bool
	}{
		{"xdr", "encoding/binary", true},
		{"xdr", "sync/atomic", false},
		{"xdr", "net/netip", false},
		{"xdr", "github.com/rasky/go-xdr/xdr2", false},
		{"xdr/xdrreflect", "github.com/rasky/go-xdr/xdr2", true},
		{"chunks", path.Join(module, "xdr"), true},
		{"chunks", path.Join(module, "rdmap"), false},
		{"rdmap/mpa", path.Join(module, "rdmap/ddp"), false},
		{"rdmap", path.Join(module, "xdr"), false},
		{"rdmap", path.Join(module, "rdmap/capture"), false},
		{"rdmap/capture", path.Join(module, "rdmap"), false},
		{"rdmap", "net", true},
		{"rpcrdma", path.Join(module, "rdmap"), false},
		{"transport", path.Join(module, "rdmap"), true},
		{"transport", path.Join(module, "nfsdemo"), false},
		{"transport/commitlog", path.Join(module, "xdr"), false},
		{"transport/push", path.Join(module, "transport/commitlog"), true},
		{"transport/push", path.Join(module, "rpcrdma"), false},
		{"nfsdemo/nfs3", path.Join(module, "rdmap"), false},
		{"nfsdemo/cli", path.Join(module, "rdmap/capture"), true},
		{"nfsdemo/nfs3", path.Join(module, "transport"), true},
		{"nfsdemo", path.Join(module, "conformance/internal/decode"), false},
		{"conformance/internal/decode", path.Join(module, "rdmap/mpa"), true},
	} {
		l := layerOf(tt.pkg)
		if l == nil {
			t.Fatalf("no layer for %s", tt.pkg)
		}
		if why := l.breach(tt.imp); (why == "") != tt.ok {
			t.Errorf("%s -> %s: %q, want allowed = %v", tt.pkg, tt.imp, why, tt.ok)
		}
	}
}
