package exports

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// How long an answer counts before it is asked for again, how soon after a question that failed, how long one may take,
// how many are kept, and asked at once.
const (
	answerTime = 5 * time.Minute
	retryTime  = 10 * time.Second
	askTime    = 5 * time.Second
	maxAnswers = 4096
	maxAsked   = 16
)

// ErrUnknown is returned while nobody has said whether a name belongs to an address.
var ErrUnknown = errors.New("it is not known yet which names this address has")

// Names knows to which addresses hosts, patterns and netgroups belong. No call waits for the answer of a directory: it
// is asked once, and again in the background; while it fails, what it said last stays, since nobody has said otherwise.
// The zero Names asks this machine's resolver, and getent for netgroups.
type Names struct {
	// Addr, Host and Group replace what is asked: the names of an address, the addresses of a host, the hosts of a
	// netgroup. A DNSError with IsNotFound says that there are none; any other error says nothing.
	Addr  func(ctx context.Context, addr string) ([]string, error)
	Host  func(ctx context.Context, name string) ([]netip.Addr, error)
	Group func(ctx context.Context, name string) ([]string, error)

	mu    sync.Mutex
	known map[question]*answer
	asked chan struct{} // those under way
}

// question is one of Addr, of Host or of Group.
type question struct {
	what string
	ip   netip.Addr
	name string
}

// answer is what is known, and a question under way.
type answer struct {
	names []string // lower case, without a dot at the end
	addrs []netip.Addr
	known bool
	until time.Time     // then it is asked again
	under chan struct{} // closed when the question has ended; nil: none is under way
}

// Has reports whether an address belongs to a name: to that of a host, if the host has the address; to a pattern (*, ?,
// [a-z], as in exports(5)) or to "@" and a netgroup, if it has a name of the address that leads back to it. While that is
// unknown it waits for ctx, and returns ErrUnknown.
func (n *Names) Has(ctx context.Context, name string, ip netip.Addr) (bool, error) {
	name, ip = canonical(name), ip.Unmap()
	switch {
	case strings.HasPrefix(name, "@"):
		group, gerr := n.ask(ctx, question{what: "group", name: name[1:]})
		own, err := n.ask(ctx, question{what: "addr", ip: ip})
		if err := errors.Join(gerr, err); err != nil {
			return false, err
		}
		return slices.ContainsFunc(own.names, func(s string) bool { return slices.Contains(group.names, s) }), nil
	case isPattern(name):
		own, err := n.ask(ctx, question{what: "addr", ip: ip})
		return slices.ContainsFunc(own.names, func(s string) bool { ok, _ := path.Match(name, s); return ok }), err
	}
	host, err := n.ask(ctx, question{what: "host", name: name})
	return slices.Contains(host.addrs, ip), err
}

func isPattern(name string) bool { return strings.ContainsAny(name, "*?[") }

func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// ask returns what is known of a question, which is asked if that is too old.
func (n *Names) ask(ctx context.Context, q question) (answer, error) {
	for {
		n.mu.Lock()
		a := n.known[q]
		if a == nil {
			if a = n.room(q); a == nil {
				n.mu.Unlock()
				return answer{}, ErrUnknown
			}
		}
		if a.under == nil && time.Now().After(a.until) {
			a.under = make(chan struct{})
			go n.answer(q, a)
		}
		now, under := *a, a.under
		n.mu.Unlock()
		if now.known {
			return now, nil
		}
		if under == nil { // it has failed, just now
			return now, ErrUnknown
		}
		select {
		case <-under:
		case <-ctx.Done():
			return now, ErrUnknown
		}
	}
}

// room makes room for a question, in the place of any that is not under way; nil: all are, so many addresses come at
// once. The caller holds n.mu.
func (n *Names) room(q question) *answer {
	if n.known == nil {
		n.known, n.asked = make(map[question]*answer), make(chan struct{}, maxAsked)
	}
	if len(n.known) >= maxAnswers {
		for old, a := range n.known {
			if a.under == nil {
				delete(n.known, old)
				break
			}
		}
		if len(n.known) >= maxAnswers {
			return nil
		}
	}
	a := &answer{}
	n.known[q] = a
	return a
}

// answer asks a question.
func (n *Names) answer(q question, a *answer) {
	n.asked <- struct{}{}
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	names, addrs, err := n.put(ctx, q)
	cancel()
	<-n.asked
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		names, addrs, err = nil, nil, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if a.until = time.Now().Add(retryTime); err == nil {
		a.names, a.addrs, a.known, a.until = names, addrs, true, time.Now().Add(answerTime)
	}
	close(a.under)
	a.under = nil
}

func (n *Names) put(ctx context.Context, q question) (names []string, addrs []netip.Addr, err error) {
	switch q.what {
	case "host":
		addrs, err = n.host(ctx, q.name)
	case "group":
		names, err = orElse(n.Group, netgroup)(ctx, q.name)
	default:
		var all []string
		if all, err = orElse(n.Addr, net.DefaultResolver.LookupAddr)(ctx, q.ip.String()); err != nil {
			return nil, nil, err
		}
		// Whoever has an address can give it any name: the name has to lead back.
		for _, name := range all {
			back, err := n.host(ctx, name)
			if err != nil {
				if dns, ok := errors.AsType[*net.DNSError](err); !ok || !dns.IsNotFound {
					return nil, nil, err
				}
			}
			if slices.Contains(back, q.ip) {
				names = append(names, name)
			}
		}
	}
	for i := range names {
		names[i] = canonical(names[i])
	}
	return names, addrs, err
}

func (n *Names) host(ctx context.Context, name string) ([]netip.Addr, error) {
	addrs, err := orElse(n.Host, func(ctx context.Context, name string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	})(ctx, name)
	for i := range addrs {
		addrs[i] = addrs[i].Unmap().WithZone("")
	}
	return addrs, err
}

func orElse[T any](f, other func(context.Context, string) (T, error)) func(context.Context, string) (T, error) {
	if f != nil {
		return f
	}
	return other
}

// netgroup asks getent, since netgroups are where nsswitch.conf says: it prints "name (host,user,domain) …". Its status
// is 2 if there is no such netgroup.
func netgroup(ctx context.Context, name string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "getent", "netgroup", name).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 2 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("getent netgroup %s: %w", name, err)
	}
	var hosts []string
	for triple := range strings.SplitSeq(string(out), "(") {
		if host, _, ok := strings.Cut(triple, ","); ok {
			hosts = append(hosts, strings.TrimSpace(host))
		}
	}
	return hosts, nil
}
