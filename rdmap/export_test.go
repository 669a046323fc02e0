package rdmap

import "github.com/stag-rdma/stag/rdmap/internal/buf"

const MaxDepth = maxDepth

// Mem returns the memory of p.
func (p *Pool) Mem() *buf.Pool { return p.mem }

// WithDefaults returns cfg as the engine sees it.
func (cfg *Config) WithDefaults() Config { return cfg.withDefaults() }

// Defaults of Config, whose documentation has them in figures.
const (
	DefaultIRD            = defaultIRD
	DefaultORD            = defaultORD
	DefaultRecvSize       = defaultRecvSize
	DefaultRecvs          = defaultRecvs
	DefaultRequestTimeout = defaultRequestTimeout
	DefaultWriteTimeout   = defaultWriteTimeout
	DefaultMemoryTimeout  = defaultMemoryTimeout
	DefaultFPDUTimeout    = defaultFPDUTimeout
	DefaultCloseTimeout   = defaultCloseTimeout
	DefaultMaxHandlers    = defaultMaxHandlers
)
