// SPDX-License-Identifier: Apache-2.0
/*
 * options: linked into the programs of sanitized builds. Our processes get an empty environment and
 * close their fences early, so what the sanitizers' runtime should know is said here. Leaks are
 * looked for by the unit tests; a confined process may not stop its own threads to look for them.
 */
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

const char *__asan_default_options(void)
{
	return "detect_leaks=0:detect_stack_use_after_return=1:use_sigaltstack=0:exitcode=66";
}

const char *__ubsan_default_options(void)
{
	return "print_stacktrace=0:halt_on_error=1:exitcode=66";
}
