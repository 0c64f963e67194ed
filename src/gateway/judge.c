// SPDX-License-Identifier: Apache-2.0
/* The decision as this process takes it: the ladder of egress/decide.h, in test builds without the
 * rungs that are off. The others are asked all the same. */
#include "gateway/gateway.h"
#include "sandbox/knobs.h"

/* Whether what a rung said may be passed over; then the question is changed so that it says yes. */
static bool pass_over(enum egress_code code, struct egress_question *q, struct egress_host *host,
		      struct str *rule, struct egress_policy *policy)
{
	switch (code) {
	case EGRESS_NO_RULE:
	case EGRESS_LITERAL:
		if (!knob_off(KNOB_EGRESS_RULES))
			return false;
		*host = *q->host;
		host->kind = EGRESS_HOST_NAME;
		*rule = (struct str){ host->text, host->len };
		*policy = (struct egress_policy){ rule, 1 };
		q->host = host;
		q->policy = policy;
		return true;
	case EGRESS_ADDR_CLASS:
	case EGRESS_REBIND_SUSPECTED:
		if (!knob_off(KNOB_EGRESS_ADDRESS))
			return false;
		q->resolved = false;
		return true;
	case EGRESS_NOT_TLS:
	case EGRESS_NO_SNI:
	case EGRESS_SNI_MISMATCH:
		if (!knob_off(KNOB_EGRESS_SNI))
			return false;
		q->first_bytes = EGRESS_BYTES_UNKNOWN;
		return true;
	default:
		return false;
	}
}

enum egress_code gateway_decide(const struct egress_question *question)
{
	struct egress_question q = *question;
	struct egress_policy policy;
	struct egress_host host;
	struct str rule;
	enum egress_code code;

	do
		code = egress_decide(&q);
	while (code && pass_over(code, &q, &host, &rule, &policy));
	return code;
}
