// SPDX-License-Identifier: Apache-2.0
// The published client that main.go holds the server to.
module opensandbox-compat

go 1.20

require github.com/alibaba/OpenSandbox/sdks/sandbox/go v1.0.2
