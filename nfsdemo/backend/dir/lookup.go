package dir

import (
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Lookup finds a name. ".." of the root is the root.
func (n *file) Lookup(name string) (backend.Node, nfs3.Attr, error) {
	if err := backend.CheckName(name); err != nil {
		return nil, nfs3.Attr{}, err
	}
	g, err := n.open()
	if err != nil {
		return nil, nfs3.Attr{}, err
	}
	defer g.done()
	if name == ".." {
		return n.parent(g)
	}
	self, err := g.stat()
	if err != nil {
		return nil, nfs3.Attr{}, err
	}
	var (
		c  *node
		st stat
	)
	find := func() (err error) {
		if c, st = n.node, self; name != "." {
			c, st, err = n.fs.look(g, name)
			return err
		}
		return g.access(mayExec)
	}
	// A look at a name needs the right to search the directory, and no other.
	if got, ok := n.known(&self.attr, mayExec); ok && got&mayExec != 0 {
		err = find()
	} else if err = n.do(find); err == nil {
		n.learn(&self.attr, mayExec, mayExec)
	}
	if err != nil {
		return nil, nfs3.Attr{}, status(err)
	}
	return n.with(c), st.attr, nil
}

// parent is the Lookup of "..", which may need to find the directory first.
func (n *file) parent(g gripRef) (backend.Node, nfs3.Attr, error) {
	if err := n.do(func() error { return g.access(mayExec) }); err != nil {
		return nil, nfs3.Attr{}, status(err)
	}
	up, err := n.fs.above(n.node, g)
	if err != nil {
		return nil, nfs3.Attr{}, err
	}
	p := n.with(up)
	a, err := p.Attr()
	if err != nil {
		return nil, a, err
	}
	return p, a, nil
}
