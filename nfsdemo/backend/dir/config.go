package dir

// Defaults of [Config].
const (
	DefaultMaxNodes    = 1 << 18
	DefaultMaxFiles    = 256
	DefaultMaxDirs     = 128
	DefaultSearchLimit = 1 << 20
)

// Config is how a directory is served. It is copied by New; nil means the defaults.
type Config struct {
	// Async leaves out the fsync after changes of names and attributes: a crash of the
	// machine may undo them. WRITE and COMMIT are not affected.
	Async bool
	// Exclusive promises that nobody else changes the directory, so that replies can have
	// the attributes before a change, which saves clients from emptying their caches.
	Exclusive bool
	// MaxNodes bounds the files whose place is remembered, about 200 octets each. If zero,
	// DefaultMaxNodes.
	MaxNodes int
	// MaxFiles bounds the open files kept for READ and WRITE, one descriptor each. If zero,
	// DefaultMaxFiles.
	MaxFiles int
	// MaxDirs bounds the open directories kept, two descriptors each. If zero,
	// DefaultMaxDirs.
	MaxDirs int
	// SearchLimit bounds the names looked at in one search for files whose place is not
	// known. If zero, DefaultSearchLimit; if negative, there is no search.
	SearchLimit int
}

// fill returns a copy of c with the defaults in place.
func (c *Config) fill() Config {
	var out Config
	if c != nil {
		out = *c
	}
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&out.MaxNodes, DefaultMaxNodes)
	def(&out.MaxFiles, DefaultMaxFiles)
	def(&out.MaxDirs, DefaultMaxDirs)
	def(&out.SearchLimit, DefaultSearchLimit)
	return out
}
