package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/internal/ops"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// choice is the value of a flag that is one of a few names; the first is the default.
type choice[T fmt.Stringer] struct {
	value *T
	of    []T
}

// String returns the name of the value.
func (c choice[T]) String() string {
	if c.value == nil {
		return ""
	}
	return (*c.value).String()
}

// Set takes the name of a value.
func (c choice[T]) Set(name string) error {
	for _, v := range c.of {
		if name == v.String() {
			*c.value = v
			return nil
		}
	}
	names := make([]string, len(c.of))
	for i, v := range c.of {
		names[i] = v.String()
	}
	return fmt.Errorf("want one of %s", strings.Join(names, ", "))
}

// Type is the name of the value in the help.
func (choice[T]) Type() string { return "name" }

// profile is the document that connections follow.
type profile bool

const (
	rfc8166 profile = false
	rfc5666 profile = true
)

// String returns the name of the document.
func (p profile) String() string {
	if p == rfc5666 {
		return "rfc5666"
	}
	return "rfc8166"
}

// settings returns the Config.RFC5666 of the profile.
func (p profile) settings() *transport.RFC5666 {
	if p == rfc5666 {
		return new(transport.RFC5666)
	}
	return nil
}

// addProfileFlag declares --profile on a command.
func addProfileFlag(cmd *cobra.Command, p *profile) {
	cmd.Flags().Var(choice[profile]{p, []profile{rfc8166, rfc5666}}, "profile",
		"rules of RPC-over-RDMA: rfc8166, or rfc5666 with padded messages, exposed replies and connection configuration")
}

// addCRCFlag declares --crc on a command. peer says what that value means there.
func addCRCFlag(cmd *cobra.Command, m *transport.CRCMode, peer string) {
	of := []transport.CRCMode{transport.CRCPeer, transport.CRCOn, transport.CRCOff}
	cmd.Flags().Var(choice[transport.CRCMode]{m, of}, "crc",
		"MPA's CRC32C: on; peer: "+peer+"; off: only if the other end asks for it")
}

// number is the value of a flag between two bounds: a count, or octets, perhaps with a unit, such as 64M.
type number[T int | int64] struct {
	value       *T
	least, most T
	how         how
}

// how says what else a number may be.
type how uint8

const (
	orDefault how = 1 << iota // 0
	unlimited                 // -1, and 0 is the default
	inOctets                  // it is a size
)

// sizeUnits are the units, as binary powers.
const sizeUnits = "KMGT"

// text writes n, a size with the largest unit that leaves no fraction.
func (v number[T]) text(n T) string {
	unit := ""
	for _, u := range sizeUnits {
		if v.how&inOctets == 0 || n == 0 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, string(u)
	}
	return strconv.FormatInt(int64(n), 10) + unit
}

// String returns the value.
func (v number[T]) String() string {
	if v.value == nil {
		return "0"
	}
	return v.text(*v.value)
}

// Set reads a count, or a size as 65536, 64K, 64KiB or 64k.
func (v number[T]) Set(text string) error {
	shift := 0
	if v.how&inOctets != 0 {
		text = strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(text), "B"), "I")
		if n := len(text); n > 0 {
			if i := strings.IndexByte(sizeUnits, text[n-1]); i >= 0 {
				text, shift = text[:n-1], 10*(i+1)
			}
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err == nil || errors.Is(err, strconv.ErrRange):
	case v.how&inOctets != 0:
		return errors.New("want octets, or a number with K, M, G or T, for example 64M or 1G")
	default:
		return errors.New("want a number")
	}
	fits := err == nil && n <= math.MaxInt64>>shift && n >= math.MinInt64>>shift
	n <<= shift
	if fits && (n >= int64(v.least) && n <= int64(v.most) || n == 0 && v.how&(orDefault|unlimited) != 0 || n == -1 && v.how&unlimited != 0) {
		*v.value = T(n)
		return nil
	}
	or := ""
	switch {
	case v.how&unlimited != 0:
		or = ", 0 for the default, or -1 for no limit"
	case v.how&orDefault != 0:
		or = ", or 0 for the default"
	}
	return fmt.Errorf("want %s to %s%s", v.text(v.least), v.text(v.most), or)
}

// Type is the name of the value in the help.
func (v number[T]) Type() string {
	if v.how&inOctets != 0 {
		return "size"
	}
	return "int"
}

// limitFlags are the flags that say which clients a server serves, and how much one client may
// use.
type limitFlags struct {
	allow        []string
	conns        int
	clientConns  int
	memory       int64
	clientMemory int64
	why          string // memory is less than the default; "" if it is not
}

// add declares the flags on a command.
func (f *limitFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.allow, "allow", nil, "serve only clients in this `network` (192.0.2.0/24) or with this address; can be repeated")
	flags.Var(number[int]{&f.conns, 1, maxCount, orDefault}, "max-connections", "most connections at a time; 0: 2048, and one for each 32K of --memory-limit, or a third of the descriptors if those are few")
	flags.Var(number[int]{&f.clientConns, 1, maxCount, unlimited}, "client-connections", "most connections of one client address; 0: an eighth of all, -1: no separate limit")
	flags.Var(number[int64]{&f.memory, minMemory, maxSize, orDefault | inOctets}, "memory-limit", "memory for calls whose data are in transit; 0: 256M, or 60 % of the cgroup's memory if that is less")
	flags.Var(number[int64]{&f.clientMemory, minMemory, maxSize, unlimited | inOctets}, "client-memory", "most of it for one client address; 0: half of all, -1: no separate limit")
}

// Ranges of flags. They are checked here because errors of transport.Config name its fields, not the flags.
const (
	maxCredits = 4096                                        // on one connection
	maxCount   = 1 << 30                                     // of connections
	minMemory  = (transport.DefaultMaxPayload>>20 + 1) << 20 // room for the largest call
	maxSize    = 1 << 50
)

// apply puts the flags into cfg.
func (f *limitFlags) apply(cfg *transport.Config, card *Card) error {
	if len(f.allow) > 0 {
		allow, err := transport.AllowNets(f.allow...)
		if err != nil {
			return usagef("--allow: %s", strings.TrimPrefix(err.Error(), "transport: "+rpc.ErrConfig.Error()+": "))
		}
		cfg.Limits.Allow = allow
	}
	cfg.Limits.Conns, cfg.Limits.Memory = f.conns, f.memory
	if n := dir.MaxDescriptors(); f.conns == 0 && n < fewDescriptors {
		cfg.Limits.Conns = max(n/3, 1) // of which one client may have a part; the proxy needs two for each
	}
	if most := cgroupMemory(os.DirFS("/")); f.memory == 0 && most > 0 && most/10*6 < transport.DefaultMemory {
		cfg.Limits.Memory = max(most/10*6, minMemory)
		f.why = fmt.Sprintf("%s for calls, 60 %% of the cgroup's %s", ops.Octets(cfg.Limits.Memory), ops.Octets(most))
	}
	cfg.Limits.PerClient = transport.ClientLimits{Conns: f.clientConns, Memory: f.clientMemory}
	return card.lessen(cfg)
}

// cgroupMemory returns the memory in octets that the process and its like may have by their cgroup, of either version,
// and those above it; 0 if there is no limit, or no cgroup. More than that is answered with a kill.
func cgroupMemory(root fs.FS) (least int64) {
	own, _ := fs.ReadFile(root, "proc/self/cgroup") // there are none without it
	for line := range strings.Lines(string(own)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		at, name := "sys/fs/cgroup", "memory.max"
		switch {
		case len(f) == 3 && f[1] == "":
		case len(f) == 3 && slices.Contains(strings.Split(f[1], ","), "memory"):
			at, name = at+"/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		// Inside a container the path may be that of the host, of which only the end, or nothing, is there.
		for dir := path.Join("/", f[2]); ; dir = path.Dir(dir) {
			b, err := fs.ReadFile(root, path.Join(at, dir, name))
			n, bad := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
			if err == nil && bad == nil && n > 0 && n < 1<<60 && (least == 0 || n < least) { // version 1 says 2^63 for none
				least = n
			}
			if dir == "/" {
				break
			}
		}
	}
	return least
}

// cgroupWarning says that calls may take memory, in octets (0: the default), that the cgroup does not have beside the rest of a
// server; "" if not.
func cgroupWarning(root fs.FS, memory int64) string {
	most := cgroupMemory(root)
	if memory = cmp.Or(memory, transport.DefaultMemory); most == 0 || memory <= max(most/10*6, minMemory) {
		return ""
	}
	return fmt.Sprintf("memory: calls may take %s of the %s of the cgroup, and the kernel ends the server when they do", ops.Octets(memory), ops.Octets(most))
}

// besides is the memory of a server besides --memory-limit: 2048 connections, buffers in reserve. With the program itself,
// which the limit does not count, it makes 64 MiB.
const besides = 48 << 20

// limitMemory tells the garbage collector how large the process may become, unless the administrator has
// (GOMEMLIMIT): calls stay within --memory-limit, but what they leave behind would double that.
func limitMemory(cfg *transport.Config) {
	if _, set := os.LookupEnv("GOMEMLIMIT"); !set {
		debug.SetMemoryLimit(collectAt(os.DirFS("/"), cfg.Limits.Memory))
	}
}

// collectAt is the memory of the process, in octets, above which garbage is collected, for calls that may take memory (0: the
// default). In a small cgroup, that has to be before the kernel ends the server.
func collectAt(root fs.FS, memory int64) int64 {
	n := cmp.Or(memory, transport.DefaultMemory) + besides
	if most := cgroupMemory(root); most > 0 {
		n = min(n, most/10*9)
	}
	return n
}
