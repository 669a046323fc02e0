package credits

// Members returns the number of shares.
func (p *Pool) Members() int { return int(p.members) }

// Holders returns the number of shares above one.
func (p *Pool) Holders() int { return int(p.pairs + p.larger) }
