// SPDX-License-Identifier: Apache-2.0
#include "http/token.h"

#include <string.h>

#define TOKEN 1
#define HOST 2
#define BOTH (TOKEN | HOST)

static const unsigned char classes[256] = {
	['0' ... '9'] = BOTH, ['A' ... 'Z'] = BOTH, ['a' ... 'z'] = BOTH, ['!'] = BOTH,
	['$'] = BOTH,	      ['%'] = BOTH,	    ['&'] = BOTH,	  ['\''] = BOTH,
	['*'] = BOTH,	      ['+'] = BOTH,	    ['-'] = BOTH,	  ['.'] = BOTH,
	['_'] = BOTH,	      ['~'] = BOTH,	    ['#'] = TOKEN,	  ['^'] = TOKEN,
	['`'] = TOKEN,	      ['|'] = TOKEN,	    ['('] = HOST,	  [')'] = HOST,
	[';'] = HOST,	      ['='] = HOST,	    [':'] = HOST,	  ['['] = HOST,
	[']'] = HOST,
};

bool token_has(unsigned char c)
{
	return classes[c] & TOKEN;
}

bool host_has(unsigned char c)
{
	return classes[c] & HOST;
}
