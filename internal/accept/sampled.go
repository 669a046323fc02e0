package accept

import (
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Sampled returns a logger for what anybody can cause: of each message it writes ten lines in a
// second, and then one in a hundred.
func Sampled(log *zap.Logger) *zap.Logger {
	if !log.Core().Enabled(zapcore.ErrorLevel) {
		return log // it writes nothing; the sampler would take half a megabyte
	}
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(c, time.Second, 10, 100)
	}))
}
