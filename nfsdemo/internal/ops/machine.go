package ops

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// machine looks at what this machine needs for a mount by its kernel. root is "/".
func machine(root string, tls, rdma, gss bool) []Result {
	m := local{root: root, release: strings.TrimSpace(read(root, "proc/sys/kernel/osrelease"))}
	if m.release == "" {
		return []Result{{Check: "kernel", State: Skipped, Detail: "this is not Linux: only Linux mounts NFS over RDMA; nfsdemo ls, cp and cat work here", Local: true}}
	}
	m.distribution()
	var list []Result
	switch {
	case tls && rdma:
		list = []Result{{Check: "kernel", State: Skipped, Detail: "Linux has TLS only for NFS over TCP: look at nfs:// for a mount; nfsdemo ls, cp and cat work here"}}
	case tls:
		list = []Result{m.tls(), m.tlshd()}
	case rdma:
		list = []Result{m.siw(), m.device(), m.rpcrdma()}
	}
	if gss {
		list = append(list, m.gssd())
	}
	if !tls || !rdma {
		list = append(list, m.helper())
	}
	for i := range list {
		list[i].Local = true
	}
	return list
}

// local is what is known about this machine.
type local struct {
	root, release string
	distro        string // debian, ubuntu, fedora or ""
}

// read returns the content of a file, "" if it cannot be read.
func read(root, name string) string {
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return ""
	}
	return string(b)
}

func (m *local) exists(names ...string) bool {
	for _, name := range names {
		if list, err := filepath.Glob(filepath.Join(m.root, name)); err == nil && len(list) > 0 {
			return true
		}
	}
	return false
}

// distribution reads os-release(5). Derivatives name what they are like.
func (m *local) distribution() {
	var ids []string
	for line := range strings.Lines(read(m.root, "etc/os-release")) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key == "ID" || key == "ID_LIKE" {
			ids = append(ids, strings.Fields(strings.Trim(value, `"'`))...)
		}
	}
	for _, d := range []string{"ubuntu", "debian", "fedora"} { // Ubuntu is like Debian
		if slices.Contains(ids, d) {
			m.distro = d
			return
		}
	}
}

// choose returns the advice for the distribution, or all of it.
func (m *local) choose(debian, ubuntu, fedora string) string {
	switch m.distro {
	case "debian":
		return debian
	case "ubuntu":
		return ubuntu
	case "fedora":
		return fedora
	}
	return "Debian: " + debian + "; Ubuntu: " + ubuntu + "; Fedora: " + fedora
}

// module reports whether the kernel has a module, loaded or not.
func (m *local) module(name string) (has, loaded bool) {
	loaded = m.exists("sys/module/" + name)
	dir := "lib/modules/" + m.release
	for _, list := range []string{"modules.dep", "modules.builtin"} {
		for line := range strings.Lines(read(m.root, dir+"/"+list)) {
			file, _, _ := strings.Cut(line, ":")
			base := filepath.Base(strings.TrimSpace(file))
			if stem, _, _ := strings.Cut(base, ".ko"); strings.ReplaceAll(stem, "-", "_") == name {
				return true, loaded
			}
		}
	}
	return loaded, loaded
}

// siw checks for the software iWARP driver.
func (m *local) siw() Result {
	has, loaded := m.module("siw")
	r := Result{Check: "siw", State: OK, Detail: "the kernel " + m.release + " has siw"}
	switch {
	case loaded:
		r.Detail += ", and it is loaded"
	case !has:
		r = bad(m.choose(
			"no kernel of Debian has it; build it, as root: sh /usr/share/nfsdemo/build-siw (from the package; packaging/build-siw in the source), or mount over TCP",
			"apt install linux-modules-extra-"+m.release,
			"dnf install kernel-modules-"+m.release+" kernel-modules-extra-"+m.release,
		), "the kernel %s has no siw, the software iWARP driver", m.release)
		r.Check = "siw"
	}
	return r
}

// device checks for an iWARP device.
func (m *local) device() Result {
	var names []string
	list, _ := filepath.Glob(filepath.Join(m.root, "sys/class/infiniband/*")) // the pattern is good
	for _, dir := range list {
		if strings.Contains(read(dir, "node_type"), "RNIC") {
			names = append(names, filepath.Base(dir))
		}
	}
	r := Result{Check: "device", State: OK, Detail: "iWARP device " + strings.Join(names, ", ")}
	if len(names) == 0 {
		fix := "as root: modprobe siw && rdma link add siw0 type siw netdev eth0 (the interface that leads to the server; lo if that is this machine); at each start: systemctl enable siw@eth0 (from the package)"
		if !m.exists("sbin/rdma", "usr/sbin/rdma", "bin/rdma", "usr/bin/rdma") {
			fix += "; rdma comes with " + m.choose("apt install iproute2", "apt install iproute2", "dnf install iproute")
		}
		r = bad(fix, "there is no iWARP device")
		r.Check = "device"
	}
	return r
}

// rpcrdma checks for the RDMA transport of the kernel's RPC.
func (m *local) rpcrdma() Result {
	has, loaded := m.module("rpcrdma")
	r := Result{Check: "rpcrdma", State: OK, Detail: "the kernel has NFS over RDMA; mount loads it"}
	switch {
	case loaded:
		r.Detail = "NFS over RDMA is loaded"
	case !has:
		r = bad(m.choose(
			"apt install linux-image-"+runtime.GOARCH+", and reboot into it",
			"apt install linux-modules-extra-"+m.release,
			"dnf install kernel-modules-"+m.release,
		), "the kernel %s has no rpcrdma, the RDMA transport of NFS", m.release)
		r.Check = "rpcrdma"
	}
	return r
}

// tls checks for TLS in the kernel, which mount -o xprtsec needs.
func (m *local) tls() Result {
	r := Result{Check: "kernel", State: OK, Detail: "the kernel " + m.release + " has TLS for NFS; mount loads it"}
	var major, minor int
	_, _ = fmt.Sscanf(m.release, "%d.%d", &major, &minor) // 0 is too old
	has, _ := m.module("tls")
	switch {
	case major < 6 || major == 6 && minor < 5:
		r = bad("use Linux 6.5 or later (Debian 13, or linux-image of bookworm-backports), or nfsdemo ls, cp and cat", "the kernel %s is too old for NFS with TLS", m.release)
	case !has:
		r = bad(m.choose("apt install linux-image-"+runtime.GOARCH+", and reboot into it", "apt install linux-modules-extra-"+m.release, "dnf install kernel-modules-"+m.release),
			"the kernel %s has no module tls", m.release)
	}
	r.Check = "kernel"
	return r
}

// tlshd checks for the program that shakes hands for the kernel, and for whom it trusts.
func (m *local) tlshd() Result {
	r := Result{Check: "tlshd", State: OK, Detail: "tlshd runs"}
	trusts := false
	for line := range strings.Lines(read(m.root, "etc/tlshd.conf") + "\n" + read(m.root, "etc/tlshd/config")) {
		trusts = trusts || strings.HasPrefix(strings.TrimSpace(line), "x509.truststore")
	}
	switch {
	case !m.runs("tlshd"):
		r = bad("as root: "+m.choose("apt install ktls-utils (from Debian 13 on)", "apt install ktls-utils", "dnf install ktls-utils")+"; systemctl enable --now tlshd",
			"tlshd, which shakes hands for the kernel, does not run")
	case !trusts:
		r = doubtful("name the CA as x509.truststore of [authenticate.client] in /etc/tlshd.conf, and restart tlshd", "tlshd trusts the CAs of the system only")
	}
	r.Check = "tlshd"
	return r
}

// runs reports whether there is a process of that name.
func (m *local) runs(name string) bool {
	list, _ := filepath.Glob(filepath.Join(m.root, "proc/[0-9]*/comm")) // the pattern is good
	return slices.ContainsFunc(list, func(file string) bool {
		b, err := os.ReadFile(file)
		return err == nil && strings.TrimSpace(string(b)) == name
	})
}

// gssd checks for the program that gets tickets for the kernel.
func (m *local) gssd() Result {
	r := Result{Check: "rpc.gssd", State: OK, Detail: "rpc.gssd runs"}
	if !m.runs("rpc.gssd") {
		r = bad("as root: "+m.choose("apt install nfs-common", "apt install nfs-common", "dnf install nfs-utils")+"; give this machine a key, host/NAME in /etc/krb5.keytab; systemctl start rpc-gssd",
			"rpc.gssd, which gets tickets for the kernel, does not run")
		r.Check = "rpc.gssd"
	}
	return r
}

// helper checks for mount.nfs.
func (m *local) helper() Result {
	if m.exists("sbin/mount.nfs", "usr/sbin/mount.nfs") {
		return Result{Check: "mount.nfs", State: OK, Detail: "mount.nfs is installed"}
	}
	r := bad(m.choose("apt install nfs-common", "apt install nfs-common", "dnf install nfs-utils"), "mount.nfs is not installed")
	r.Check = "mount.nfs"
	return r
}
