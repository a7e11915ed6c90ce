// Package kgo pins franz-go, whose own tests are run.
package kgo

import _ "github.com/twmb/franz-go/pkg/kgo"
