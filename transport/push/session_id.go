package push

import "crypto/rand"

// SessionID names a session of a log at its server: 128 random bits that the server tells
// nobody but who has opened it. For programs that have to do with a log and want to know
// whose it is.
type SessionID [keyLen]byte

// ID returns the session at the server, zeros before there is one and on the rung InFile.
// It changes whenever the session is opened again.
func (s *Session) ID() SessionID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return SessionID(s.server)
}

func newSessionID() (id SessionID) {
	_, _ = rand.Read(id[:]) // never fails, by its documentation
	return id
}
