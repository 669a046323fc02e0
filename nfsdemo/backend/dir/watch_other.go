//go:build !linux

package dir

// watcher would hear of changes of files. Here there is none.
type watcher struct{}

type watched struct{}

func (*watcher) close() error { return nil }

func (*watcher) add(*inode, int) {}

func (*watcher) remove(*inode) {}

func (*watcher) changes(*inode) (uint64, bool) { return 0, false }
